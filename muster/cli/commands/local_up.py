"""`muster local up`."""

import time
from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.local_cluster import building, kubectl
from muster.cli.options import FILE, autoscaler_option, name_option, programs_option, scheduler_option
from muster.cli.output import is_quiet
from muster.errors import ExitCode, MusterError
from muster.local import kai, karpenter, preflight
from muster.local.build import everything
from muster.local.cluster import boot, control
from muster.local.cluster.local_cluster import LocalCluster, existing
from muster.local.errors import LocalClusterError
from muster.local.karpenter import Autoscaler
from muster.local.simulated_cloud import karpenter as cloud_of_karpenter
from muster.local.simulated_cloud import offering
from muster.model.stack import Scheduler
from muster.paths import KAI_POOLS, KARPENTER_POOLS, LOCAL_POOLS

_EXAMPLES = """
muster local up
muster local up --name second --pools my-pools.yaml --clock-scale 60
muster local up --scheduler kai
muster local up --autoscaler karpenter
"""


@command(examples=_EXAMPLES, codes={ExitCode.OUTSIDE: "A program could not be downloaded, built or started."})
@name_option
@click.option(
    "--pools",
    type=FILE,
    show_default="the pools that Muster ships",
    metavar="FILE",
    help="YAML file with the simulated cloud's pools and stock.",
)
@scheduler_option
@autoscaler_option
@click.option(
    "--clock-scale",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="N",
    help="Simulated seconds of the cloud in one second.",
)
@programs_option
def local_up(
    name: str,
    *,
    pools: Path | None,
    scheduler: Scheduler,
    autoscaler: Autoscaler,
    clock_scale: float,
    programs: str | None,
) -> None:
    """Get what is missing and start the local cluster.

    Starts a real Kubernetes: etcd, API server, controllers, scheduler and containerd nodes, without Docker
    and without a virtual machine. It needs Linux and root. GPU nodes appear when the simulated cloud
    provisions them. A cluster that is already up is not changed.

    With --scheduler kai the real KAI (0.12.0) runs beside the control plane, for stack `local-kai`. With
    --autoscaler karpenter the real Karpenter buys the GPU nodes from the simulated cloud. The programs of
    either take minutes to compile the first time.
    """
    found = existing(name)
    if found is not None and control.is_alive(found[1]):
        _already_up(found[0], scheduler, autoscaler)
        return
    by_karpenter = autoscaler is Autoscaler.KARPENTER
    has_kai = scheduler is Scheduler.KAI
    _refuse_together(scheduler, autoscaler)
    offered = pools or (KAI_POOLS if has_kai else KARPENTER_POOLS if by_karpenter else LOCAL_POOLS)
    _check_pools(offered, by_karpenter=by_karpenter)
    preflight.check()
    with building():
        artifacts = everything.ensure_all(
            programs=everything.chosen_programs(programs),
            on_demand=[kai.FOLDER, kai.RESERVATION] * has_kai + [karpenter.PROGRAM] * by_karpenter,
        )
    begun = time.monotonic()

    def step(what: str) -> None:
        if not is_quiet():
            click.echo(f"  {time.monotonic() - begun:5.1f} s  {what}")

    if not is_quiet():
        click.echo(f"local cluster {name}")
    cloud = boot.Cloud(pools=offered, autoscaler=autoscaler, clock_scale=clock_scale)
    cluster = boot.up(name, artifacts, step=step, cloud=cloud, scheduler=scheduler)
    click.echo(f"  {time.monotonic() - begun:5.1f} s  ready: {cluster.api_url}")
    for note in control.notes(cluster):
        click.echo(f"  note: {note}")


def _check_pools(file: Path, *, by_karpenter: bool) -> None:
    try:
        offered = offering.read(file)
        if by_karpenter:
            cloud_of_karpenter.instance_types(offered)
    except offering.OfferingError as error:
        fix = "correct the file of --pools."
        raise MusterError(f"{error}.", fix=fix, exit_code=ExitCode.UNUSABLE) from None


def _refuse_together(scheduler: Scheduler, autoscaler: Autoscaler) -> None:
    if scheduler is Scheduler.KAI and autoscaler is Autoscaler.KARPENTER:
        raise MusterError(
            "--scheduler kai with --autoscaler karpenter: no stack of the local cluster has both.",
            fix="leave one of them out.",
            exit_code=ExitCode.UNUSABLE,
        )


def _already_up(cluster: LocalCluster, scheduler: Scheduler, autoscaler: Autoscaler) -> None:
    report = control.examine(cluster.name, kubectl(cluster))
    where = f"local cluster {cluster.name}"
    for option, wanted, runs in (
        ("scheduler", scheduler, Scheduler.KAI if kai.SHARD_RUNNER in report.units else Scheduler.KUEUE),
        (
            "autoscaler",
            autoscaler,
            Autoscaler.KARPENTER if karpenter.PROGRAM in report.units else Autoscaler.SIMULATED,
        ),
    ):
        if runs is not wanted:
            fix = f"use --{option} {runs}, or muster local down first"
            raise LocalClusterError(where, f"is up with {option} {runs}", fix=fix)
    if report.state is not control.State.HEALTHY:
        raise LocalClusterError(where, "; ".join(report.faults), fix="muster local down, then up")
    click.echo(f"local cluster {cluster.name} is up: {cluster.api_url}")
