"""The controller's image for each processor architecture.

This machine's own architecture is built as for the local cluster, so that the pushed image is the tested
one. The other one is made by unpacking the same packages, wheels and code without running any of them. A
stack whose recorder forecasts gets one more layer: the player, compiled for each processor.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from muster.artifacts import resolved
from muster.artifacts.catalogue import ChartEntry
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
from muster.artifacts.oci.registry import (
    Registry,
    RegistryError,
    Repository,
    Web,
    archive,
    credentials_for,
    digest_of,
)
from muster.artifacts.publish.bom import MEDIA_TYPE, bill
from muster.artifacts.resolved import archive_name
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
from muster.whole_file import write_whole

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
    """Run `pulumi up` of the stack's own program for the repository only. A second run changes nothing."""
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


# Resolves the images that a stack names by tag to digests.
# The registry's first answer is trusted: a digest guarantees that later pulls are the same, not that the
# image is safe.


def pins(stack: Stack, *, web: Web) -> Iterator[tuple[str, str]]:
    """(name, `repository@digest`) of each as it comes. RegistryError or UnreachableError where there is
    none.
    """
    for name, reference in resolved.by_tag(stack).items():
        place, _, tag = reference.rpartition(":")
        repository = Repository.of(place)
        manifest = Registry(repository, credentials_for(repository.host), web).manifest(tag)
        yield name, f"{place}@{digest_of(manifest)}"


# Writes digests into a stack file: of the controller's image, of other images, and of charts.
#
# A digest replaces the existing line, or becomes the first key. Every other byte of the file is kept,
# comments included, because a person writes it.

_Digests = TypeVar("_Digests")
KEY: Final = "muster:image"
_LINE: Final = re.compile(rf"^(?P<indent>[ \t]+){KEY}:[^\n]*$", re.MULTILINE)
# A mapping in block style: one in braces is left to its writer.
_SECTIONS: Final = {
    kind: re.compile(rf"^(?P<indent>[ \t]+)muster:{kind}:[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
    for kind in ("images", "charts")
}
_CONFIG: Final = re.compile(r"^config:[ \t]*(?:#[^\n]*)?$", re.MULTILINE)


class StackFileError(MusterError):
    """A stack file in which the digest cannot be written."""


def write_digests(path: Path, edit: Callable[[str, _Digests, str], str], digests: _Digests) -> None:
    """Replace the file in one step by what `edit`, one of the functions below, makes of its text."""
    write_whole(path, edit(path.read_text(encoding="utf-8"), digests, str(path)).encode())


def with_image(text: str, reference: str, source: str) -> str:
    """The text of a stack file with this image in it."""
    line = f"{KEY}: {reference}"
    if _LINE.search(text):
        return _LINE.sub(lambda found: f"{found['indent']}{line}", text, count=1)
    if not _CONFIG.search(text):
        raise StackFileError(f"{source} has no line `config:`; write `  {line}` below it yourself.")
    return _CONFIG.sub(lambda found: f"{found[0]}\n  {line}", text, count=1)


def with_pins(text: str, references: Mapping[str, str], source: str) -> str:
    """The text of a stack file with these images, by name, in its `muster:images`."""
    section, is_there = _section(text, "images", "write these among them yourself", references, source=source)
    if not is_there:
        return _inserted(text, section, f"{section[0]}\n  muster:images:", references, indent=" " * 4)
    return _inserted(text, section, section[0], references, indent=section["indent"] * 2)


def with_charts(text: str, digests: Mapping[str, str], source: str) -> str:
    """The text of a stack file with these digests, by chart, in its `muster:charts.digests`."""
    section, is_there = _section(text, "charts", "write these as their `digests`", digests, source=source)
    if not is_there:
        begun = f"{section[0]}\n  muster:charts:\n    digests:"
        return _inserted(text, section, begun, digests, indent=" " * 6)
    indent = section["indent"]
    own = re.compile(rf"^{indent * 2}digests:[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
    if (there := own.search(text, section.end())) is not None:
        return _inserted(text, there, there[0], digests, indent=indent * 3)
    return _inserted(text, section, f"{section[0]}\n{indent * 2}digests:", digests, indent=indent * 3)


def _section(
    text: str, kind: str, fix: str, entries: Mapping[str, str], *, source: str
) -> tuple[re.Match[str], bool]:
    """The line of `muster:<kind>` and True, or else the line below which it belongs and False."""
    if (found := _SECTIONS[kind].search(text)) is not None:
        return found, True
    if f"muster:{kind}:" in text:
        lines = ", ".join(f"{name}: {entry}" for name, entry in entries.items())
        raise StackFileError(f"{source} has its {kind} in braces; {fix}: {lines}")
    if (found := _CONFIG.search(text)) is not None:
        return found, False
    raise StackFileError(f"{source} has no line `config:`; its {kind} belong below one.")


def _inserted(
    text: str, place: re.Match[str], before: str, entries: Mapping[str, str], *, indent: str
) -> str:
    """The text with `before` in the place of what was found there, and the entries below it."""
    added = "".join(f"\n{indent}{name}: {value}" for name, value in entries.items())
    return text[: place.start()] + before + added + text[place.end() :]


# Fetches charts: into a folder, for clusters without access to a registry, and for their digests.
#
# Responsible for the name of a chart's archive in a folder (as `muster:charts.path` expects it) and for which
# digests a stack lacks. The first answer is trusted: a digest guarantees that later downloads are the same.


def fetch(entries: list[ChartEntry], folder: Path, *, mirror: str | None = None) -> Iterator[tuple[str, str]]:
    """(chart, digest) of each as it comes. RegistryError or UnreachableError where one cannot be had."""
    folder.mkdir(parents=True, exist_ok=True)
    web = Web()
    for entry in entries:
        content = archive(entry.chart, entry.version, home=mirror or entry.repository, web=web)
        digest = digest_of(content)
        if entry.digest and entry.digest != digest:
            raise RegistryError(
                f"{entry.name}: the fetched archive has digest {digest}, but versions.toml has "
                f"{entry.digest}."
            )
        (folder / archive_name(entry)).write_bytes(content)
        yield entry.name, digest


def digests(stack: Stack, *, web: Web) -> Iterator[tuple[str, str]]:
    """(chart, digest) of what the stack installs from its own source, where neither it nor versions.toml has
    one yet.
    """
    for name in resolved.without_digest(stack):
        yield name, digest_of(_archive(resolved.chosen(stack).charts[name], stack, web))


def _archive(entry: ChartEntry, stack: Stack, web: Web) -> bytes:
    chart = resolved.chart_of(entry, stack.charts)
    if chart.home is None:
        return Path(chart.reference).read_bytes()
    return archive(entry.chart, entry.version, home=chart.home, web=web)
