"""`muster local status`."""

from collections.abc import Mapping
from dataclasses import asdict

import click

from muster.cli.command import command
from muster.cli.local_cluster import kubectl
from muster.cli.options import json_option, name_option
from muster.cli.output import put_json
from muster.errors import ExitCode
from muster.local.cluster import health
from muster.local.cluster.local_cluster import existing

_CODES = {
    ExitCode.DONE: "The local cluster is healthy.",
    ExitCode.FOUND: "It is degraded or its processes are gone.",
    ExitCode.OUTSIDE: "There is no local cluster of this name.",
}


@command(examples="muster local status\nmuster local status --json", codes=_CODES)
@name_option
@json_option
def cli(name: str, *, as_json: bool) -> ExitCode:
    """Show whether the local cluster is healthy: its processes, its nodes, and each fault with its fix.

    A note names what this machine lacks, such as a kernel that can enforce NetworkPolicies.
    """
    found = existing(name)
    report = health.examine(name, kubectl(found[0]) if found else None)
    if as_json:
        put_json(asdict(report))
    else:
        _print(report)
    codes = {health.State.HEALTHY: ExitCode.DONE, health.State.ABSENT: ExitCode.OUTSIDE}
    return codes.get(report.state, ExitCode.FOUND)


def _print(report: health.Report) -> None:
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
    """Such as `v1.34.4 downloaded (sha256 0f3a91b2c4d5, digest in versions.toml)`."""
    detail = ", ".join(filter(None, (f"sha256 {program.get('sha256', '')[:12]}", program.get("checked"))))
    return f"{program.get('version', '')} {program['how']} ({detail})".strip()
