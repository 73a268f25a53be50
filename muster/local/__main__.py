"""The local Kubernetes: up, status, down, logs, kubeconfig, env and the cloud's moods.

Exit codes: 0 done or healthy; 1 failed or degraded; 2 wrong use; 3 no such plane; 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from muster.local import preflight
from muster.local.build import everything
from muster.local.build.cache import cache_root
from muster.local.build.children import Stopped
from muster.local.cluster import boot, health, teardown
from muster.local.cluster.local_cluster import LocalCluster, existing, named
from muster.local.errors import LocalClusterError
from muster.local.simulated_cloud import cli as cloud
from muster.paths import LOCAL_POOLS


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if "command" in options:
            return int(options.command(options) or 0)
        return cloud.run(options, _living(options.plane).kubeconfig)
    except LocalClusterError as error:
        print(f"localplane: {error}", file=sys.stderr)
        return error.code
    except (KeyboardInterrupt, Stopped):
        print("localplane: interrupted; what was built so far is kept", file=sys.stderr)
        return 130


def _up(options: argparse.Namespace) -> int:
    found = existing(options.plane)
    if found is not None and teardown.is_alive(found[1]):
        return _already_up(found[0])
    preflight.check()
    artifacts = everything.ensure_all()
    begun = time.monotonic()

    def step(name: str) -> None:
        print(f"  {time.monotonic() - begun:5.1f} s  {name}", flush=True)

    print(f"plane {options.plane}", flush=True)
    plane = boot.up(options.plane, artifacts, step=step, pools=options.pools, clock_scale=options.clock_scale)
    print(f"  {time.monotonic() - begun:5.1f} s  ready: {plane.api_url}", flush=True)
    return 0


def _already_up(plane: LocalCluster) -> int:
    report = health.examine(plane.name, _kubectl(plane))
    if report.state is health.State.HEALTHY:
        print(f"plane {plane.name} is up: {plane.api_url}")
        return 0
    raise LocalClusterError(f"plane {plane.name}", "; ".join(report.faults), fix="muster local down, then up")


def _build(_: argparse.Namespace) -> int:
    preflight.check()
    everything.ensure_all()
    return 0


def _status(options: argparse.Namespace) -> int:
    found = existing(options.plane)
    report = health.examine(options.plane, _kubectl(found[0]) if found else None)
    if options.json:
        print(json.dumps(asdict(report), indent=1))
    else:
        _print(report)
    return {health.State.HEALTHY: 0, health.State.ABSENT: 3}.get(report.state, 1)


def _print(report: health.Report) -> None:
    print(f"plane {report.name}: {report.state}" + (f"  {report.api}" if report.api else ""))
    for name, unit in sorted(report.units.items()):
        running = f"{unit['seconds']:.0f} s" if unit["pid"] else "down"
        restarts = f"  restarted {unit['restarts']} times" if unit["restarts"] else ""
        print(f"  {name:28} {running:>8}{restarts}")
    for node, state in sorted(report.nodes.items()):
        print(f"  node {node:23} {state:>8}")
    for fault in report.faults:
        print(f"  ! {fault}")


def _down(options: argparse.Namespace) -> int:
    found = existing(options.plane)
    plane, record = found if found is not None else (named(options.plane, index=0), None)
    if found is None and not plane.run.exists() and not plane.state.exists():
        print(f"there is no plane {options.plane}")
        return 0
    teardown.down(plane, record)
    print(f"plane {plane.name} is gone; the cache stays in {cache_root()}")
    return 0


def _logs(options: argparse.Namespace) -> int:
    plane = _living(options.plane)
    names = sorted(path.stem for path in plane.logs.glob("*.log"))
    if options.unit is None:
        print("\n".join(names))
        return 0
    if options.unit not in names:
        raise LocalClusterError(f"unit {options.unit}", "has no log", fix=f"one of {', '.join(names)}")
    command = [
        "tail",
        "-n",
        str(options.lines),
        *(["-F"] if options.follow else []),
        str(plane.logs / f"{options.unit}.log"),
    ]
    return subprocess.run(command, check=False).returncode


def _kubeconfig(options: argparse.Namespace) -> int:
    plane = _living(options.plane)
    print(plane.kubeconfig if options.path else plane.kubeconfig.read_text())
    return 0


def _env(options: argparse.Namespace) -> int:
    plane = _living(options.plane)
    for name, value in environment(plane).items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def environment(plane: LocalCluster) -> dict[str, str]:
    """What `pulumi`, `kubectl` and the examples need to work on a plane and on nothing else."""
    tools = json.loads(plane.artifacts.read_text())["path"]
    return {
        "KUBECONFIG": str(plane.kubeconfig),
        "MUSTER_ARTIFACTS": str(plane.artifacts),
        "PULUMI_BACKEND_URL": f"file://{plane.pulumi_state}",
        "PULUMI_CONFIG_PASSPHRASE": "",  # the state dies with the plane and holds nothing but its own objects
        "PULUMI_HOME": str(plane.state / "pulumi-home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PATH": ":".join([tools, os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")]),
    }


def _living(name: str) -> LocalCluster:
    found = existing(name)
    if found is None:
        raise LocalClusterError(f"plane {name}", "is not up", fix="muster local up", code=3)
    return found[0]


def _kubectl(plane: LocalCluster) -> str | None:
    try:
        return str(json.loads(plane.artifacts.read_text())["programs"]["kubectl"])
    except (OSError, KeyError, ValueError):
        return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m muster.local",
        description="A real Kubernetes on this machine, with a simulated GPU cloud beneath it.",
        epilog=f"Exit codes: 0 done, 1 failed or degraded, 2 wrong use, 3 no plane. Cache: {cache_root()}",
    )
    parser.add_argument("--plane", default="default", metavar="NAME", help="which plane (default: default)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = _command(commands, "up", _up, "build what is missing, then boot a plane")
    up.add_argument("--pools", type=Path, default=LOCAL_POOLS, metavar="FILE", help="the cloud's offering")
    up.add_argument(
        "--clock-scale", type=float, default=1.0, metavar="N", help="the cloud's clock runs N times as fast"
    )
    _command(commands, "build", _build, "build programs and images, boot nothing")
    status = _command(commands, "status", _status, "how the plane is, and what to do about it")
    status.add_argument("--json", action="store_true", help="for scripts")
    _command(commands, "down", _down, "end the plane and everything in it; the cache stays")
    logs = _command(commands, "logs", _logs, "logs of one process; without a name, their names")
    logs.add_argument("unit", nargs="?", metavar="UNIT")
    logs.add_argument("-f", "--follow", action="store_true")
    logs.add_argument("-n", "--lines", type=int, default=100)
    kubeconfig = _command(commands, "kubeconfig", _kubeconfig, "print the plane's kubeconfig")
    kubeconfig.add_argument("--path", action="store_true", help="print where it lies instead")
    _command(commands, "env", _env, 'shell lines for pulumi and kubectl: eval "$(muster local env)"')
    cloud.register(commands)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, function: object, help_text: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=help_text, description=help_text)
    command.set_defaults(command=function)
    return command


if __name__ == "__main__":
    sys.exit(main())
