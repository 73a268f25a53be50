"""`muster new`."""

from __future__ import annotations

from pathlib import Path

import click

from muster import paths
from muster.cli.command import command
from muster.cli.options import DIRECTORY
from muster.config.scaffold import write_stack
from muster.model.providers import Provider

_EXAMPLES = """
muster new gke-dev --provider gke
muster new lab --provider existing
"""


@command(examples=_EXAMPLES)
@click.argument("stack")
@click.option(
    "--provider",
    type=click.Choice([provider.value for provider in Provider]),
    required=True,
    help="Where the cluster is.",
)
@click.option(
    "--folder",
    type=DIRECTORY,
    metavar="DIR",
    show_default="stacks/ of the project",
    help="Where to write it.",
)
def cli(stack: str, *, provider: str, folder: Path | None) -> None:
    """Write one more stack file, small, commented and valid. An existing file is left alone."""
    path = write_stack(stack, Provider(provider), folder=folder or paths.project() / paths.STACKS)
    where = " --repository host/path" if provider == Provider.EXISTING else ""
    click.echo(f"{path} written. Next: edit it, then")
    click.echo(f"  muster validate {stack}")
    click.echo(f"  muster image push {stack}{where}")
    click.echo(f"  pulumi stack init {stack} && pulumi preview -s {stack}")
