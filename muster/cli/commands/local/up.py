"""`muster local up`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.commands.local.building import building
from muster.cli.commands.local.living import kubectl
from muster.cli.options import FILE, name_option, programs_option
from muster.cli.output import is_quiet
from muster.errors import ExitCode
from muster.local import preflight
from muster.local.build import everything
from muster.local.cluster import boot, health, teardown
from muster.local.cluster.local_cluster import LocalCluster, existing
from muster.local.errors import LocalClusterError
from muster.paths import LOCAL_POOLS

_EXAMPLES = """
muster local up
muster local up --name second --pools my-pools.yaml --clock-scale 60
"""


@command(examples=_EXAMPLES, codes={ExitCode.OUTSIDE: "A program could not be downloaded, built or started."})
@name_option
@click.option(
    "--pools",
    type=FILE,
    default=LOCAL_POOLS,
    show_default="the pools that Muster ships",
    metavar="FILE",
    help="YAML file with the simulated cloud's pools and stock.",
)
@click.option(
    "--clock-scale",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="N",
    help="Simulated seconds of the cloud in one second.",
)
@programs_option
def cli(name: str, *, pools: Path, clock_scale: float, programs: str | None) -> None:
    """Get what is missing and start the local cluster.

    Starts a real Kubernetes: etcd, API server, controllers, scheduler and containerd nodes, without Docker
    and without a virtual machine. It needs Linux and root. GPU nodes appear when the simulated cloud
    provisions them. A cluster that is up already is left as it is.
    """
    found = existing(name)
    if found is not None and teardown.is_alive(found[1]):
        _already_up(found[0])
        return
    preflight.check()
    with building():
        artifacts = everything.ensure_all(programs=everything.chosen_programs(programs))
    begun = time.monotonic()

    def step(what: str) -> None:
        if not is_quiet():
            click.echo(f"  {time.monotonic() - begun:5.1f} s  {what}")

    if not is_quiet():
        click.echo(f"local cluster {name}")
    cluster = boot.up(name, artifacts, step=step, pools=pools, clock_scale=clock_scale)
    click.echo(f"  {time.monotonic() - begun:5.1f} s  ready: {cluster.api_url}")
    for note in health.notes(cluster):
        click.echo(f"  note: {note}")


def _already_up(cluster: LocalCluster) -> None:
    report = health.examine(cluster.name, kubectl(cluster))
    if report.state is not health.State.HEALTHY:
        where = f"local cluster {cluster.name}"
        raise LocalClusterError(where, "; ".join(report.faults), fix="muster local down, then up")
    click.echo(f"local cluster {cluster.name} is up: {cluster.api_url}")
