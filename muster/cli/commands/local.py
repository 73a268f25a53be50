"""`muster local`: a real Kubernetes cluster on this machine, as it runs."""

import importlib
import json
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.options import (
    json_option,
    name_option,
)
from muster.cli.output import progress, put_json
from muster.errors import ExitCode, MusterError
from muster.local import LocalClusterError, preflight
from muster.local.builder.cache import cache_root
from muster.local.builder.children import BuildStoppedError
from muster.local.cluster import control, network_policies
from muster.local.cluster.local_cluster import LocalCluster, environment, existing, named


@command(examples="muster local down\nmuster local down --name second")
@name_option
def local_down(name: str) -> None:
    """Stop the local cluster and delete everything in it.

    The cache of built programs and images is kept, so that the next `muster local up` takes seconds.
    """
    found = existing(name)
    cluster, record = found if found is not None else (named(name, index=0), None)
    if found is None and not cluster.run.exists() and not cluster.state.exists():
        click.echo(f"there is no local cluster {name}")
        return
    control.down(cluster, record)
    click.echo(f"local cluster {cluster.name} is gone; the cache is kept in {cache_root()}")


_STATUS_CODES = {
    ExitCode.DONE: "The local cluster is healthy.",
    ExitCode.FOUND: "It is degraded or its processes are gone.",
    ExitCode.OUTSIDE: "There is no local cluster of this name.",
}


@command(examples="muster local status\nmuster local status --json", codes=_STATUS_CODES)
@name_option
@json_option
def local_status(name: str, *, as_json: bool) -> ExitCode:
    """Show whether the local cluster is healthy: its processes, its nodes, and each fault with its fix.

    A note names what this machine lacks, such as a kernel that can enforce NetworkPolicies.
    """
    found = existing(name)
    report = control.examine(name, kubectl(found[0]) if found else None)
    if as_json:
        put_json(asdict(report))
    else:
        _print(report)
    codes = {control.State.HEALTHY: ExitCode.DONE, control.State.ABSENT: ExitCode.OUTSIDE}
    return codes.get(report.state, ExitCode.FOUND)


def _print(report: control.Report) -> None:
    click.echo(f"local cluster {report.name}: {report.state}" + (f"  {report.api}" if report.api else ""))
    for name, unit in sorted(report.units.items()):
        running = f"{unit['seconds']:.0f} s" if unit["pid"] else "down"
        restarts = f"  restarted {unit['restarts']} times" if unit["restarts"] else ""
        click.echo(f"  {name:28} {running:>8}{restarts}")
    for node, state in sorted(report.nodes.items()):
        click.echo(f"  node {node:23} {state:>8}")
    for name, program in sorted(report.programs.items()):
        click.echo(f"  program {name:27} {_origin(program)}")
    for note in report.notes:
        click.echo(f"  note: {note}")
    for fault in report.faults:
        click.echo(f"  ! {fault}")


def _origin(program: Mapping[str, str]) -> str:
    """Such as `v1.37.2 downloaded (sha256 0f3a91b2c4d5, digest in versions.toml)`."""
    detail = ", ".join(filter(None, (f"sha256 {program.get('sha256', '')[:12]}", program.get("checked"))))
    return f"{program.get('version', '')} {program['how']} ({detail})".strip()


_LOGS_EXAMPLES = """
muster local logs
muster local logs kube-apiserver --follow
"""


@command(examples=_LOGS_EXAMPLES)
@click.argument("process", required=False, metavar="[PROCESS]")
@name_option
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they are written.")
@click.option("-n", "--lines", type=int, default=100, show_default=True, help="How many lines to begin with.")
def local_logs(process: str | None, *, name: str, follow: bool, lines: int) -> ExitCode:
    """Show the log of one process of the local cluster; without PROCESS, list the processes."""
    cluster = living(name)
    names = sorted(path.stem for path in cluster.logs.glob("*.log"))
    if process is None:
        click.echo("\n".join(names))
        return ExitCode.DONE
    if process not in names:
        raise MusterError(f"process {process!r} has no log.", fix=f"name one of {', '.join(names)}.")
    options = ["-n", str(lines), *(["-F"] if follow else [])]
    done = subprocess.run(["tail", *options, str(cluster.logs / f"{process}.log")], check=False)
    return ExitCode.DONE if done.returncode == 0 else ExitCode.OUTSIDE


@command(examples='eval "$(muster local env)"')
@name_option
def local_env(name: str) -> None:
    """Print shell lines that point pulumi and kubectl at the local cluster."""
    for variable, value in environment(living(name)).items():
        click.echo(f"export {variable}={shlex.quote(value)}")


@command(examples="kubectl --kubeconfig $(muster local kubeconfig --path) get nodes")
@name_option
@click.option("--path", "as_path", is_flag=True, help="Print the path of the file instead of its content.")
def local_kubeconfig(name: str, *, as_path: bool) -> None:
    """Print the kubeconfig of the local cluster."""
    cluster = living(name)
    click.echo(cluster.kubeconfig if as_path else cluster.kubeconfig.read_text())


_DOCTOR_CODES = {
    ExitCode.DONE: "The local cluster can run here.",
    ExitCode.OUTSIDE: "It cannot; the message names the first obstacle and its fix.",
}


@command(examples="muster local doctor", codes=_DOCTOR_CODES)
def local_doctor() -> None:
    """Check whether this machine can run the local cluster.

    Looks at the operating system, permissions, disk, memory, packages and overlay mounts, as `muster local
    up` does before it starts, and changes nothing. A note names what the cluster would do without, such as
    enforced NetworkPolicies.
    """
    importlib.import_module("muster.cli.commands.local_up")  # Names the extra where a package is missing.
    preflight.check(may_install=False)
    click.echo("this machine can run the local cluster: muster local up")
    if why := network_policies.obstacle():
        click.echo(f"note: {network_policies.notice(why)}")


def living(name: str) -> LocalCluster:
    """The local cluster of this name; LocalClusterError when it is not up."""
    found = existing(name)
    if found is None:
        option = "" if name == "default" else f" --name {name}"
        raise LocalClusterError(f"local cluster {name}", "is not up", fix=f"muster local up{option}")
    return found[0]


def kubectl(cluster: LocalCluster) -> str | None:
    """The kubectl that the local cluster was built with."""
    try:
        return str(json.loads(cluster.artifacts.read_text())["programs"]["kubectl"])
    except (OSError, KeyError, ValueError):
        return None


def kubeconfig_of(name: str, given: Path | None) -> Path:
    """The given kubeconfig, else that of the local cluster."""
    return given or living(name).kubeconfig


@contextmanager
def building() -> Iterator[None]:
    """Show the progress of the block; after Ctrl-C the message names what is kept."""
    try:
        with progress():
            yield
    except KeyboardInterrupt:
        raise BuildStoppedError from None
