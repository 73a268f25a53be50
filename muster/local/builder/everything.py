"""Makes whatever a local cluster needs that is not there yet: programs, charts, images, node stores.

Responsible for: the order, what runs in parallel, and where each program comes from. Go programs compile one
after another (each uses every core); downloads and Python packages run meanwhile; images follow their parts.

A program on PATH is used instead of being built where its own version output fits. One that does not answer,
or answers something else, is not an error: Muster gets its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from muster.errors import ExitCode
from muster.local import LocalClusterError
from muster.local.builder.cache import Cache
from muster.local.builder.children import BuildStoppedError, Children
from muster.local.builder.go import GoBuilder, Toolchain, architecture, find_toolchain
from muster.local.builder.images import BINARY_IMAGES, PLAYER, RECORDER, Image, ImageBuilder
from muster.local.builder.progress import Board, shown
from muster.local.builder.releases import DownloadError, Releases
from muster.local.builder.store import Artifacts, ensure_asset, ensure_store, link_programs
from muster.local.builder.versions import Asset, Program, Versions, load, origin_of
from muster.local.kai import RESERVATION

_SECONDS: Final = 20
# The first CLI that reads `stackConfigDir` and every option that Pulumi.yaml uses; 4 may change them.
_CLI_FLOOR: Final = (3, 200, 0)
_CLI_CEILING: Final = (4, 0, 0)


def accepted(program: Program, *, ours: Path) -> Path | None:
    """Return the program on PATH when it fits. Programs under `ours` (the cache) do not count."""
    judge = _JUDGES.get(program.accept)
    found = shutil.which(program.name)
    if judge is None or found is None or Path(found).resolve().is_relative_to(ours.resolve()):
        return None
    return Path(found) if judge(program, Path(found)) else None


def version_in(text: str) -> tuple[int, int, int] | None:
    """The first x.y.z in a text."""
    found = re.search(r"\bv?(\d+)\.(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def cli_fits(text: str) -> bool:
    version = version_in(text)
    return version is not None and _CLI_FLOOR <= version < _CLI_CEILING


def kubectl_fits(text: str, *, server: str) -> bool:
    """Kubernetes supports a kubectl one minor release older or newer than the server."""
    with suppress(ValueError, KeyError, TypeError):
        client = version_in(json.loads(text)["clientVersion"]["gitVersion"])
        wanted = version_in(server)
        if client and wanted:
            return client[0] == wanted[0] and abs(client[1] - wanted[1]) <= 1
    return False


def plugin_fits(text: str, *, wanted: str) -> bool:
    """The plugin may be newer than the Python SDK within its major release, never older."""
    found, floor = version_in(text), version_in(wanted)
    return found is not None and floor is not None and found[0] == floor[0] and found >= floor


def _pulumi_cli(program: Program, path: Path) -> bool:
    return cli_fits(_answer(path, "version"))


def _pulumi_bundle(program: Program, path: Path) -> bool:
    """The language host has no version output: it is taken to be of the CLI beside it."""
    cli = path.parent / "pulumi"
    if shutil.which("pulumi") != str(cli):
        return False
    scripts = [path.parent / Path(each).name for each in program.beside]
    return cli.is_file() and all(each.is_file() for each in scripts) and cli_fits(_answer(cli, "version"))


def _kubectl(program: Program, path: Path) -> bool:
    return kubectl_fits(_answer(path, "version", "--client", "-o", "json"), server=program.version)


def _pulumi_kubernetes(program: Program, path: Path) -> bool:
    return plugin_fits(_plugin_version(path), wanted=dict(program.stamps)["main.version"])


_JUDGES: Final[Mapping[str, Callable[[Program, Path], bool]]] = {
    "pulumi-cli": _pulumi_cli,
    "pulumi-bundle": _pulumi_bundle,
    "kubectl-minor": _kubectl,
    "pulumi-kubernetes": _pulumi_kubernetes,
}


def _answer(path: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _plugin_version(path: Path) -> str:
    """Ask as the engine does: the plugin prints its port, then answers GetPluginInfo there."""
    # Imported here because it takes half a second that most runs do not have to spend. Neither
    # package ships type information.
    import grpc  # type: ignore[import-untyped]
    from google.protobuf import empty_pb2  # type: ignore[import-untyped]
    from pulumi.runtime.proto import provider_pb2_grpc

    try:
        plugin = subprocess.Popen([path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return ""
    try:
        port = plugin.stdout.readline().strip() if plugin.stdout else ""
        if not port.isdigit():
            return ""
        with closing(grpc.insecure_channel(f"127.0.0.1:{port}")) as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            return str(stub.GetPluginInfo(empty_pb2.Empty(), timeout=_SECONDS).version)
    except grpc.RpcError:
        return ""
    finally:
        plugin.kill()
        plugin.wait()


# Seconds that each step besides the Go programs took on two cores, for the progress display.
STEPS: Final = {
    "python base": 120.0,
    "python packages": 50.0,
    "python images": 80.0,
    "system images": 8.0,
    "node stores": 20.0,
}
# A cold build leaves about this much in Go's caches and ours together.
_NEEDED_BYTES: Final = 20 * 1024**3
# On PATH together: the engine looks its plugins up there.
_ON_PATH: Final = ("pulumi", "pulumi-language-python", "pulumi-resource-kubernetes", "kubectl")
_PYTHON_IMAGES: Final = ("python", "ray", "gang-admission", RECORDER)
PROGRAMS_VARIABLE: Final = "MUSTER_PROGRAMS"
SYSTEM_STORE: Final = "system"
RAY_STORE: Final = "ray"


class Programs(StrEnum):
    """Where programs come from that are not in the cache and not on PATH."""

    AUTO = "auto"
    """From their publisher where that can be reached, otherwise compiled."""
    DOWNLOAD = "download"
    """From their publisher; a failure is an error. What is published as an image only is compiled."""
    BUILD = "build"
    """Compiled from pinned modules. Always so in CI."""


def chosen_programs(option: str | None = None) -> Programs:
    """Return the value of `--programs`, else of MUSTER_PROGRAMS, else auto; always build where CI is set."""
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        return Programs.BUILD
    named = option or os.environ.get(PROGRAMS_VARIABLE) or Programs.AUTO
    try:
        return Programs(named)
    except ValueError:
        raise LocalClusterError(
            f"--programs {option}" if option else f"{PROGRAMS_VARIABLE}={named}",
            "is not a source of programs",
            fix=f"use {', '.join(Programs)}",
            exit_code=ExitCode.UNUSABLE,
        ) from None


def ensure_all(
    *,
    base: Path | None = None,
    programs: Programs | None = None,
    on_demand: Collection[str] = (),
) -> Artifacts:
    """Make what is missing and verify the rest. Raises LocalClusterError when that is not possible.

    `on_demand`: folders of programs that only some local clusters need.

    Ctrl-C ends every child and leaves the caches fit to go on from.
    """
    run = Run(Cache(), base=base, source=programs, on_demand=on_demand)
    return run.whole()


def ensure_only(
    *names: str, base: Path | None = None, programs: Programs | None = None
) -> list[tuple[str, str]]:
    """Make the program, image or asset of each name, or all programs of the directory of this name.

    Returns (kind, path or reference) of each.
    """
    return Run(Cache(), base=base, source=programs).only(*names)


def ensure(*, programs: Sequence[str], assets: Sequence[str]) -> tuple[dict[str, Path], dict[str, Path]]:
    """Return the paths of these programs and assets, and make those that are missing.

    Raises LocalClusterError when one cannot be made.
    """
    run = Run(Cache(), base=None)
    return run.some(programs, assets)


class Run:
    """One pass over what a local cluster needs: every part is taken from the cache or made."""

    def __init__(
        self,
        cache: Cache,
        *,
        base: Path | None,
        source: Programs | None = None,
        on_demand: Collection[str] = (),
    ) -> None:
        self.cache = cache
        self.on_demand = on_demand
        self.children = Children()
        self.board = Board()
        self.versions: Versions = load()
        self.source = source or chosen_programs()
        self.releases = Releases(cache, self.children, board=self.board, arch=architecture())
        self._finding = threading.Lock()
        self._found: dict[str, Toolchain] = {}
        self.go = GoBuilder(cache, self.children, toolchain=self.toolchain, board=self.board)
        self.images = ImageBuilder(cache, self.children, versions=self.versions, base=base)

    def toolchain(self, floor: str) -> Toolchain:
        """Found when it is first needed: an imported or a downloaded program needs none."""
        with self._finding:
            if floor not in self._found:
                self._found[floor] = find_toolchain(self.cache, self.children, floor=floor)
            return self._found[floor]

    def whole(self) -> Artifacts:
        wanted = [program for program in self.versions.programs.values() if self._is_needed(program)]
        for program in wanted:
            self.board.add(program.name, program.seconds)
        for name, seconds in STEPS.items():
            self.board.add(name, seconds)
        with shown(self.board), ThreadPoolExecutor(max_workers=4) as pool, self._ending_children():
            programs = pool.submit(self.programs, wanted)
            pythons = pool.submit(self.python_images)
            _together(programs, pythons)
            made = self.binary_images(programs.result())
            assets = self.assets()
            recorder = self.images.recorder(programs.result()[PLAYER])
            images = {**made, **pythons.result(), recorder.name: recorder}
            stores = self.stores(images)
        chosen = {name: path for name, path in programs.result().items() if name in _ON_PATH}
        return Artifacts(
            programs=programs.result(),
            origins={
                name: origin_of(self.versions.programs[name], path, cache=self.cache.root)
                for name, path in programs.result().items()
            },
            assets=assets,
            images=images,
            stores=stores,
            path=link_programs(self.cache, chosen),
        )

    def _is_needed(self, each: Program | Asset) -> bool:
        return not each.on_demand or each.directory.name in self.on_demand

    def programs(self, wanted: Sequence[Program]) -> dict[str, Path]:
        """Every program's path: from PATH, from the cache, or freshly built."""
        found: dict[str, Path] = {}
        with ThreadPoolExecutor(max_workers=4) as pool:
            for program, path in zip(wanted, pool.map(self._present, wanted), strict=True):
                if path:
                    found[program.name] = path
                    self.board.done(program.name, "ready", learnable=False)
        missing = [program for program in wanted if program.name not in found]
        if missing:
            self._room_for(missing)
            found |= self._make(missing)
        return {program.name: found[program.name] for program in wanted}

    def _present(self, program: Program) -> Path | None:
        """On PATH, imported, downloaded or built earlier. `download` does not take what was built before."""
        elsewhere = accepted(program, ours=self.cache.root) or self.go.imported(program)
        if elsewhere or self.source is Programs.BUILD:
            return elsewhere or self.go.ready(program)
        if program.release and self.source is Programs.DOWNLOAD:
            return self.releases.ready(program)
        return self.releases.ready(program) or self.go.ready(program)

    def _make(self, missing: Sequence[Program]) -> dict[str, Path]:
        """Download what is offered while the rest compiles, then compile what could not be downloaded."""
        offered = self._offered(missing)
        with ThreadPoolExecutor(max_workers=4) as pool:
            lanes = {program.name: pool.submit(self._download, program) for program in offered}
            try:
                made = self._build([program for program in missing if program.name not in lanes])
            except BaseException:
                self.children.stopping.set()
                raise
            got = {name: lane.result() for name, lane in lanes.items()}
        made |= {name: path for name, path in got.items() if path}
        return made | self._build([program for program in offered if got[program.name] is None])

    def _offered(self, missing: Sequence[Program]) -> list[Program]:
        published = [program for program in missing if program.release]
        if self.source is Programs.BUILD or not published:
            return []
        if self.source is Programs.DOWNLOAD:
            return published
        answering = self.releases.reachable(published)
        if silent := [program.name for program in published if program.name not in answering]:
            self.say(f"publishers cannot be reached: compiling {', '.join(silent)} from pinned modules")
        return [program for program in published if program.name in answering]

    def _download(self, program: Program) -> Path | None:
        """The downloaded program; None when it has to be compiled instead."""
        self.board.start(program.name, "downloading")
        try:
            path = self.releases.fetch(program)
        except DownloadError as problem:
            if self.source is Programs.DOWNLOAD:
                raise
            self.say(f"{problem.where}: {problem.what}; compiling {program.name} from its pinned module")
            self.board.note(program.name, "waits to be compiled")
            return None
        self.board.done(program.name, "downloaded", learnable=False)
        return path

    def say(self, text: str) -> None:
        """A line beside the progress display."""
        print(f"  {text}", file=sys.stderr, flush=True)

    def _build(self, missing: Sequence[Program]) -> dict[str, Path]:
        """One after another, the modules of all that follow being downloaded meanwhile."""
        if not missing:
            return {}
        with ThreadPoolExecutor(max_workers=1) as downloads:
            fetched = {program.name: downloads.submit(self.go.fetch, program) for program in missing}
            built: dict[str, Path] = {}
            for program in missing:
                try:
                    self.board.start(program.name, "downloading")
                    fetched[program.name].result()
                    self.board.note(program.name, "")
                    built[program.name] = self.go.build(program)
                    self.board.done(program.name)
                except BaseException:
                    downloads.shutdown(wait=False, cancel_futures=True)
                    raise
        return built

    def _room_for(self, missing: Sequence[Program]) -> None:
        """Refuse before the first byte is downloaded rather than after twenty minutes."""
        share = sum(program.seconds for program in missing)
        whole = sum(each.seconds for each in self.versions.programs.values() if not each.on_demand)
        needed = _NEEDED_BYTES * share / whole
        free = shutil.disk_usage(self.cache.make()).free
        if free < needed:
            raise LocalClusterError(
                str(self.cache.root),
                f"{free / 1024**3:.1f} GiB are free, the build needs about {needed / 1024**3:.1f} GiB",
                fix="free some space or point MUSTER_CACHE at a larger disk",
            )

    def python_images(self) -> dict[str, Image]:
        with self.board.task("python base"):
            self.images.base()
        with self.board.task("python packages"):
            for name in self.versions.requirements:
                self.images.packages(name)
        with self.board.task("python images"):
            made = (self.images.python(), self.images.ray(), self.images.gang_admission())
        return {image.name: image for image in made}

    def binary_images(self, programs: dict[str, Path]) -> dict[str, Image]:
        with self.board.task("system images"):
            wanted = (name for name in BINARY_IMAGES if name in programs)
            return {name: self.images.binary(name, programs[name]) for name in wanted}

    def assets(self) -> dict[str, Path]:
        wanted = {name: asset for name, asset in self.versions.assets.items() if self._is_needed(asset)}
        return {name: ensure_asset(self.cache, self.go, asset) for name, asset in wanted.items()}

    def stores(self, images: dict[str, Image]) -> dict[str, Path]:
        """Two kinds of node: where the platform runs, and where the work runs."""
        with self.board.task("node stores"):
            work = [images[name] for name in ("pause", "python", "ray", RESERVATION) if name in images]
            system = [images[name] for name in BINARY_IMAGES if name != RESERVATION]
            return {
                SYSTEM_STORE: ensure_store(
                    self.cache,
                    self.children,
                    name=SYSTEM_STORE,
                    images=[images["gang-admission"], images[RECORDER]],
                    onto=[*system, images["python"]],
                ),
                RAY_STORE: ensure_store(self.cache, self.children, name=RAY_STORE, images=work),
            }

    def some(self, programs: Sequence[str], assets: Sequence[str]) -> tuple[dict[str, Path], dict[str, Path]]:
        wanted = [self.versions.programs[name] for name in programs]
        for program in wanted:
            self.board.add(program.name, program.seconds)
        with shown(self.board), self._ending_children():
            made = self.programs(wanted)
            folders = {name: ensure_asset(self.cache, self.go, self.versions.assets[name]) for name in assets}
        return made, folders

    def only(self, *names: str) -> list[tuple[str, str]]:
        """Make what has one of these names or is in a folder of it: (kind, path or reference) of each."""
        programs: dict[str, Program] = {}
        assets: dict[str, Asset] = {}
        for name in names:
            meant = PLAYER if name == RECORDER else name
            of_name = {key: each for key, each in self.versions.programs.items() if _is_meant(each, meant)}
            of_asset = {key: each for key, each in self.versions.assets.items() if _is_meant(each, name)}
            if not (of_name or of_asset or name in _PYTHON_IMAGES):
                known = sorted([*self.versions.programs, *self.versions.assets, *_PYTHON_IMAGES])
                raise LocalClusterError(
                    f"--only {name}", "names nothing", fix=f"choose one of {', '.join(known)}"
                )
            programs |= of_name
            assets |= of_asset
        for program in programs.values():
            self.board.add(program.name, program.seconds)
        for name in set(_PYTHON_IMAGES).intersection(names):
            self.board.add(f"image {name}", STEPS["python images"])
        with shown(self.board), self._ending_children():
            paths = self.programs([*programs.values()])
            made = [("program", str(path)) for path in paths.values()]
            made += [("asset", str(ensure_asset(self.cache, self.go, each))) for each in assets.values()]
            for name in names:
                if name in BINARY_IMAGES:
                    made.append(("image", self.images.binary(name, paths[name]).reference))
                if image := self._python_image(name, paths):
                    made.append(("image", image.reference))
        return made

    def _python_image(self, name: str, programs: Mapping[str, Path]) -> Image | None:
        makers: dict[str, Callable[[], Image]] = {
            "python": self.images.python,
            "ray": self.images.ray,
            "gang-admission": self.images.gang_admission,
            RECORDER: lambda: self.images.recorder(programs[PLAYER]),
        }
        if name not in makers:
            return None
        with self.board.task(f"image {name}"):
            return makers[name]()

    @contextmanager
    def _ending_children(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.children.stop()
            raise


def _is_meant(each: Program | Asset, name: str) -> bool:
    """By its own name; what is built on demand also by the folder that it shares with others."""
    return each.name == name or (each.on_demand and each.directory.name == name)


def _together(*lanes: Future[Any]) -> None:
    """Wait for all, or raise the first failure; `BuildStoppedError` is only what others suffer from it."""
    done, _ = wait(lanes, return_when=FIRST_EXCEPTION)
    failures = [failure for lane in done if (failure := lane.exception())]
    for failure in failures:
        if not isinstance(failure, BuildStoppedError):
            raise failure
    if failures:
        raise failures[0]
