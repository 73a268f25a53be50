"""The controller's image for each processor architecture.

This machine's own architecture is built as for the local cluster, so that the pushed image is the tested
one. The other one is made by unpacking the same packages, wheels and code without running any of them. A
stack whose recorder forecasts gets one more layer: the player, compiled for each processor.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from muster.artifacts.oci.image import (
    Image,
    assemble,
    attach,
    index_of,
    layer_of_files,
    layer_of_tar,
    push,
    read_archive,
)
from muster.artifacts.oci.registry import Registry, RegistryError, Repository, credentials_for, digest_of
from muster.artifacts.publish.bom import MEDIA_TYPE, bill
from muster.errors import MusterError
from muster.local import preflight
from muster.local.builder.cache import Cache
from muster.local.builder.children import Children
from muster.local.builder.go import GoBuilder, Toolchain, find_toolchain, go_floor
from muster.local.builder.images import (
    CONTROLLER_PARTS,
    MADE_AT,
    PLAYER,
    PLAYER_PLACE,
    ImageBuilder,
    copy_source,
)
from muster.local.builder.progress import Board, shown
from muster.local.builder.versions import Program, load
from muster.model.stack import Stack
from muster.paths import PACKAGE

# As registries call a processor -> as the kernel does.
MACHINES: Final[Mapping[str, str]] = {"amd64": "x86_64", "arm64": "aarch64"}
# What one image took on two cores without a cache, for the progress display.
_SECONDS: Final = 45.0
CREATED: Final = "2025-01-01T00:00:00Z"


def build(
    cache: Cache | None = None, *, board: Board | None = None, has_player: bool = False
) -> tuple[Image, ...]:
    """Build one image for each processor, from the cache where it has them.

    Each image is a task of `board`. Raises LocalClusterError when one cannot be built.
    """
    preflight.check_for_images()
    board, cache = board or Board(), cache or Cache()
    for name in (_here(), *_others()):
        board.add(_task(name), _SECONDS)
    children = Children()
    builder = ImageBuilder(cache, children, versions=load(), base=None)
    try:
        players = _players(cache, children, board) if has_player else {}
        with board.task(_task(_here())):
            own = builder.recorder(players[_here()]) if players else builder.gang_admission()
            mine = read_archive(own.archive, architecture=_here())
        others = []
        for name in _others():
            with board.task(_task(name)):
                others.append(_foreign(builder, name, like=mine, player=players.get(name)))
    except BaseException:
        children.stop()
        raise
    return (mine, *others)


def _players(cache: Cache, children: Children, board: Board) -> dict[str, Path]:
    """The player for each processor, compiled here."""
    program = load().programs[PLAYER]
    found = find_toolchain(cache, children, floor=go_floor(program.directory))
    board.add(PLAYER, program.seconds * len(MACHINES))
    with board.task(PLAYER):
        return {
            name: _player(program, replace(found, arch=name), cache, children, board) for name in MACHINES
        }


def _player(program: Program, toolchain: Toolchain, cache: Cache, children: Children, board: Board) -> Path:
    go = GoBuilder(cache, children, toolchain=lambda _: toolchain, board=board)
    ready = go.ready(program)
    if ready is None:
        go.fetch(program)
    return ready or go.build(program)


def _task(architecture: str) -> str:
    return f"image {architecture}"


def _others() -> list[str]:
    return [name for name in MACHINES if name != _here()]


def _here() -> str:
    return next(name for name, machine in MACHINES.items() if machine == platform.machine())


def _foreign(builder: ImageBuilder, architecture: str, *, like: Image, player: Path | None) -> Image:
    """The same settings as our own processor's image, over the other's packages."""
    base, packages = builder.foreign(MACHINES[architecture])
    with tempfile.TemporaryDirectory(prefix="muster-image-") as folder:
        tree = Path(folder)
        for part in CONTROLLER_PARTS:
            copy_source(PACKAGE / part, tree / "muster" / part)
        copy_source(packages.path / "site", tree / "site")
        _compile(tree)
        code = layer_of_files(_files_under(tree, under="opt/muster"), made_at=MADE_AT)
    programs = [layer_of_files([(PLAYER_PLACE, player)], made_at=MADE_AT)] if player else []
    settings: dict[str, Any] = like.config["config"]
    return assemble(
        [layer_of_tar((base.path / "base.tar").read_bytes()), code, *programs],
        architecture=architecture,
        settings=settings,
        created=CREATED,
    )


def _files_under(tree: Path, *, under: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(tree.rglob("*")):
        if path.is_file():
            yield f"{under}/{path.relative_to(tree)}", path


def _compile(tree: Path) -> None:
    """Bytecode is the same for every processor, and the image's root cannot be written when it runs. By
    hash, not by time: a file's time in the image is not its time here.
    """
    if platform.python_version_tuple()[:2] != ("3", "11"):
        return  # another Python's bytecode is of no use there; the image compiles in memory at each start
    # In a process of its own: what this one has interned before shows in the bytes.
    form = ("--invalidation-mode", "unchecked-hash", "-s", str(tree), "-p", "/opt/muster")
    # It fails for files of another Python that a library brings, which nothing imports.
    subprocess.run([sys.executable, "-m", "compileall", "-qq", *form, str(tree)], check=False)


# Builds the controller's image and pushes it to a repository.

_PUSH_SECONDS: Final = 20.0


def publish(repository: Repository, *, has_player: bool = False) -> str:
    """Push the image of every processor with its bill of materials; the digest of the whole.

    UnreachableError before the build where the registry does not answer.
    """
    registry = Registry(repository, credentials_for(repository.host))
    _await_answer(registry)
    board = Board()
    with shown(board):
        images = build(board=board, has_player=has_player)
        board.add("push", _PUSH_SECONDS)
        with board.task("push"):
            return _push(images, registry)


def _await_answer(registry: Registry) -> None:
    # A registry may refuse to say whether a repository exists, and take a push to it: only silence counts.
    with suppress(RegistryError):
        registry.has_manifest("latest")


def _push(images: tuple[Image, ...], registry: Registry) -> str:
    # The tag is made of the content: pushing the same image again adds no second tag, and a tag never moves.
    tag = digest_of(index_of(images)).removeprefix("sha256:")[:12]
    digest = push(images, registry, tag=tag)
    for image in images:
        content = bill(image, created=CREATED)
        attach(registry, subject=image.manifest, content=content, media_type=MEDIA_TYPE)
    return digest


# The repository that a stack's image is pushed to.
#
# Responsible for its address, and for creating it with the stack's own program, limited to that one resource.

# Named as in components/gang_admission.py, which is not imported for two constants.
_STEP: Final = {"MUSTER_STEP": "image-repository"}
_RESOURCE: Final = "**image-repository"
_UP_SECONDS: Final = 600


class PushTargetError(MusterError):
    """There is no repository to push to. The message names a remedy."""


def repository_of(stack: Stack) -> str:
    """`host/path` of the stack's own repository."""
    found = stack.cluster.image_address(lambda: _account(stack.cluster.region))
    if found is None:
        raise PushTargetError(
            "Muster did not make this stack's cluster, so it knows no registry for it.",
            fix="name a repository that the nodes can pull from: --repository HOST/PATH.",
        )
    return found


def make_repository(name: str) -> None:
    """Run `pulumi up` for the repository only. A second run changes nothing."""
    program = shutil.which("pulumi")
    if program is None:
        raise PushTargetError(
            "the Pulumi CLI is not on PATH.", fix="install it, or name a repository with --repository."
        )
    argv = [program, "up", "--yes", "--skip-preview", "--non-interactive", "--stack", name]
    try:
        done = subprocess.run(
            [*argv, "--target", _RESOURCE], env={**os.environ, **_STEP}, timeout=_UP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise PushTargetError(
            f"`pulumi up` of the repository did not finish within {_UP_SECONDS} s.",
            fix="run the command again to continue.",
        ) from None
    if done.returncode != 0:
        raise PushTargetError("the repository could not be made; see the engine's output above.")


def _account(region: str) -> str:
    """The AWS account of the credentials."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    limits = Config(connect_timeout=10, read_timeout=30, retries={"max_attempts": 3, "mode": "standard"})
    try:
        return str(boto3.client("sts", region_name=region, config=limits).get_caller_identity()["Account"])
    except (BotoCoreError, ClientError) as error:
        raise PushTargetError(
            f"no credentials for AWS: {error}.", fix="run `aws sso login`, then this again."
        ) from None
