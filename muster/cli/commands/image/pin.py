"""`muster image pin`."""

from collections.abc import Iterator

import click

from muster import config
from muster.artifacts.oci.web import Web
from muster.artifacts.publish import stackfile
from muster.artifacts.publish.stackfile import pins, write_charts, write_pins
from muster.cli.command import command
from muster.cli.options import existing_stack, stack_argument


@command(examples="muster image pin gke-prod")
@stack_argument
def cli(stack: str) -> None:
    """Write the digests of the other images and of the charts into the stack file.

    Those are the images and charts that the stack uses. The digests are read from the registries. Images
    come first, so that they are in the file even when a chart cannot be read.
    """
    file = existing_stack(stack)
    loaded, web = config.load(file), Web()
    images = _printed(pins(loaded, web=web))
    if images:
        write_pins(file, images)
    found = _printed(stackfile.digests(loaded, web=web))
    if found:
        write_charts(file, found)
    if images or found:
        click.echo(f"written to {file}: commit it")
    else:
        click.echo("every image and chart has its digest")


def _printed(found: Iterator[tuple[str, str]]) -> dict[str, str]:
    """All of them, each printed as it is read."""
    kept: dict[str, str] = {}
    for name, digest in found:
        click.echo(f"{name}: {digest}")
        kept[name] = digest
    return kept
