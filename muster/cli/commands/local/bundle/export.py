"""`muster local bundle export`."""

from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.options import FILE, programs_option
from muster.cli.output import progress
from muster.local import preflight
from muster.local.build import everything, transfer


@command(examples="muster local bundle export muster-bundle.tar.gz")
@click.argument("file", type=FILE)
@programs_option
def cli(file: Path, *, programs: str | None) -> None:
    """Write the built cache into FILE, for a colleague or an offline site.

    The file holds the programs, charts, Python packages and images for the versions that this Muster pins;
    what is missing is made first. It fits machines with the same kind of processor and the same version of
    Muster. Node stores are left out: they are made from the images in half a minute.
    """
    preflight.check()
    with progress():
        digest = transfer.export(file, programs=everything.chosen_programs(programs))
    click.echo(f"{file}: {file.stat().st_size / 1024**2:.0f} MiB, sha256 {digest}")
