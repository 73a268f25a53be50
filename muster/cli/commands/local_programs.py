"""`muster local build`, `bundle` and `pin-programs`: the programs and images of the local cluster."""

import time
from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.local_cluster import building
from muster.cli.options import FILE, programs_option
from muster.cli.output import note, progress
from muster.errors import ExitCode
from muster.local import preflight
from muster.local.build import bundle, everything
from muster.local.build.cache import cache_root
from muster.local.build.progress import clock_text
from muster.local.build.releases import pin
from muster.model.quantities import many
from muster.paths import VERSIONS_FILE

_EXAMPLES = """
muster local build
muster local build --only kai
"""


@command(examples=_EXAMPLES)
@click.option(
    "--only", default="", metavar="NAME", help="Build one program, image or asset, or everything of `kai`."
)
@click.option("--base", type=FILE, metavar="FILE", help="Root file system (tar) for the Python images.")
@click.option("--artifacts", type=FILE, metavar="FILE", help="Write the paths of what was built here, JSON.")
@programs_option
def local_build(*, only: str, base: Path | None, artifacts: Path | None, programs: str | None) -> None:
    """Get the programs and images of the local cluster, and start nothing.

    Results are kept in a cache. After Ctrl-C the next run continues with what is missing.
    """
    started = time.monotonic()
    chosen = everything.chosen_programs(programs)
    if only:
        with building():
            built = everything.ensure_only(only, base=base, programs=chosen)
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


_CODES = {
    ExitCode.UNUSABLE: "The bundle is for another kind of machine or another version of Muster.",
    ExitCode.OUTSIDE: "The bundle is damaged or not whole; the cache is as it was.",
}


@command(examples="muster local bundle import muster-bundle.tar.gz\nmuster local up", codes=_CODES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def local_bundle_import(file: Path) -> None:
    """Put the programs and images of a bundle into the cache.

    Every file is compared with the bundle's digests before the cache changes. The programs are run by the
    next `muster local up`, which needs neither Go nor a network then: import only what you trust, and compare
    the file's sha256 with the one that the export printed.
    """
    entries = bundle.import_(file)
    click.echo(f"{many(len(entries), 'entry', 'entries')} imported into {cache_root()}")
