"""`muster local up`, and `build`, `bundle` and `pin-programs`: what gets and builds programs."""

import time
from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.commands.local import building, kubectl
from muster.cli.options import FILE, autoscaler_option, name_option, programs_option, scheduler_option
from muster.cli.output import is_quiet, note, progress
from muster.errors import ExitCode, MusterError
from muster.local import LocalClusterError, kai, karpenter, preflight
from muster.local.builder import bundle, everything
from muster.local.builder.cache import cache_root
from muster.local.builder.progress import clock_text
from muster.local.builder.releases import pin
from muster.local.cluster import boot, control
from muster.local.cluster.local_cluster import LocalCluster, existing
from muster.local.karpenter import Autoscaler
from muster.local.simulated_cloud import offering
from muster.model.quantities import many
from muster.model.stack import Scheduler
from muster.paths import KAI_POOLS, KARPENTER_POOLS, LOCAL_POOLS, VERSIONS_FILE

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
    has_kai = bool(scheduler.traits.local_program)
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
    cluster = boot.up(name, artifacts, step=step, cloud=cloud, has_kai=has_kai)
    click.echo(f"  {time.monotonic() - begun:5.1f} s  ready: {cluster.api_url}")
    for lack in control.notes(cluster):
        click.echo(f"  note: {lack}")


def _check_pools(file: Path, *, by_karpenter: bool) -> None:
    try:
        offered = offering.read(file)
        if by_karpenter:
            karpenter.instance_types(offered)
    except offering.OfferingError as error:
        fix = "correct the file of --pools."
        raise MusterError(f"{error}.", fix=fix, exit_code=ExitCode.UNUSABLE) from None


def _refuse_together(scheduler: Scheduler, autoscaler: Autoscaler) -> None:
    if scheduler.traits.local_program and autoscaler is Autoscaler.KARPENTER:
        raise MusterError(
            f"--scheduler {scheduler} with --autoscaler karpenter: no stack of the local cluster has both.",
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


_BUILD_EXAMPLES = """
muster local build
muster local build --only kai --only karpenter
"""


@command(examples=_BUILD_EXAMPLES)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Build one program, image or asset, or everything of `kai`. May be given several times.",
)
@click.option("--base", type=FILE, metavar="FILE", help="Root file system (tar) for the Python images.")
@click.option("--artifacts", type=FILE, metavar="FILE", help="Write the paths of what was built here, JSON.")
@programs_option
def local_build(
    *, only: tuple[str, ...], base: Path | None, artifacts: Path | None, programs: str | None
) -> None:
    """Get the programs and images of the local cluster, and start nothing.

    Results are kept in a cache. After Ctrl-C the next run continues with what is missing.
    """
    started = time.monotonic()
    chosen = everything.chosen_programs(programs)
    if only:
        with building():
            built = everything.ensure_only(*only, base=base, programs=chosen)
        for kind, where in built:
            click.echo(f"{kind}: {where}")
    else:
        preflight.check()
        with building():
            made = everything.ensure_all(base=base, programs=chosen)
        if artifacts:
            made.write(artifacts)
    note(f"took {clock_text(time.monotonic() - started)}")


@command(
    examples="muster local pin-programs",
    codes={ExitCode.OUTSIDE: "A publisher does not answer; nothing was written."},
)
def local_pin_programs() -> None:
    """Record the digests of released programs in versions.toml, from their publishers' checksum files.

    For a checkout of Muster, after a version was raised. From then on a download has to have the recorded
    digest, whatever its publisher serves.
    """
    changed = pin()
    for name, digests in changed.items():
        for arch, digest in digests.items():
            click.echo(f"{name} {arch}: sha256 {digest}")
    click.echo(f"{VERSIONS_FILE}: {many(len(changed), 'program')} changed")


@command(examples="muster local bundle export muster-bundle.tar.gz")
@click.argument("file", type=FILE)
@programs_option
def local_bundle_export(file: Path, *, programs: str | None) -> None:
    """Write the built cache into FILE, for a colleague or an offline site.

    The file holds the programs, charts, Python packages and images for the versions that this Muster pins;
    what is missing is made first. It fits machines with the same kind of processor and the same version of
    Muster. Node stores are left out: they are made from the images in half a minute.
    """
    preflight.check()
    with progress():
        digest = bundle.export(file, programs=everything.chosen_programs(programs))
    click.echo(f"{file}: {file.stat().st_size / 1024**2:.0f} MiB, sha256 {digest}")


_IMPORT_CODES = {
    ExitCode.UNUSABLE: "The bundle is for another kind of machine or another version of Muster.",
    ExitCode.OUTSIDE: "The bundle is damaged or not whole; the cache is as it was.",
}


@command(examples="muster local bundle import muster-bundle.tar.gz\nmuster local up", codes=_IMPORT_CODES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def local_bundle_import(file: Path) -> None:
    """Put the programs and images of a bundle into the cache.

    Every file is compared with the bundle's digests before the cache changes. The programs are run by the
    next `muster local up`, which needs neither Go nor a network then: import only what you trust, and compare
    the file's sha256 with the one that the export printed.
    """
    entries = bundle.import_(file)
    click.echo(f"{many(len(entries), 'entry', 'entries')} imported into {cache_root()}")
