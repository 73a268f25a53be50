"""`muster local bundle import`."""

from pathlib import Path

import click

from muster.cli.command import command
from muster.errors import ExitCode
from muster.local.build import transfer
from muster.local.build.cache import cache_root
from muster.model.quantities import many

_CODES = {
    ExitCode.UNUSABLE: "The bundle is for another kind of machine or another version of Muster.",
    ExitCode.OUTSIDE: "The bundle is damaged or not whole; the cache is as it was.",
}


@command(examples="muster local bundle import muster-bundle.tar.gz\nmuster local up", codes=_CODES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def cli(file: Path) -> None:
    """Put the programs and images of a bundle into the cache.

    Every file is compared with the bundle's digests before the cache changes. The programs are run by the
    next `muster local up`, which needs neither Go nor a network then: import only what you trust, and compare
    the file's sha256 with the one that the export printed.
    """
    entries = transfer.import_(file)
    click.echo(f"{many(len(entries), 'entry', 'entries')} imported into {cache_root()}")
