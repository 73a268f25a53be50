"""Programs on PATH that are used instead of being built.

Responsible for: judging whether a program fits, from its own version output. A program that does not
answer, or answers something else, is not an error: Muster gets its own.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from muster.local.build.versions import Program

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
