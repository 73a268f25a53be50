"""`muster image charts`."""

from pathlib import Path

import click

from muster import config
from muster.artifacts import upstream
from muster.artifacts.catalogue import catalogue
from muster.artifacts.publish import stackfile
from muster.cli.command import command
from muster.cli.options import DIRECTORY, STACK, existing_stack

_EXAMPLES = """
muster image charts --to charts/
muster image charts gke-prod --to charts/
muster image charts --to charts/ --mirror oci://registry.example.com/charts
"""


@command(examples=_EXAMPLES)
@click.argument("stack", type=STACK, required=False, metavar="[STACK]")
@click.option("--to", "folder", type=DIRECTORY, required=True, metavar="DIR", help="Where to write them.")
@click.option("--mirror", metavar="oci://...", help="An OCI registry that holds all of them.")
def cli(*, folder: Path, mirror: str | None, stack: str | None) -> None:
    """Download the charts into a directory, for clusters without a registry.

    With STACK, in the versions that its `muster:versions` names.
    """
    known = catalogue() if stack is None else upstream.chosen(config.load(existing_stack(stack)))
    entries = list(known.charts.values())
    for name, digest in stackfile.fetch(entries, folder, mirror=mirror):
        click.echo(f"{name}: {digest}")
    click.echo(
        f"set `muster:charts: {{path: {folder}}}`; `muster image pin STACK` writes the digests beside it"
    )
