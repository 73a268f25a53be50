"""`muster image build`."""

from pathlib import Path

import click

from muster.artifacts.oci.image import index_of
from muster.artifacts.oci.registry import digest_of
from muster.artifacts.publish.bom import bill
from muster.cli.command import command
from muster.cli.commands.image.repository import has_player
from muster.cli.commands.image.repository import repository as repository_for
from muster.cli.options import DIRECTORY, STACK, existing_stack
from muster.cli.output import progress

_EXAMPLES = """
muster image build
muster image build gke-prod --boms boms/
"""


@command(examples=_EXAMPLES)
@click.argument("stack", type=STACK, required=False, metavar="[STACK]")
@click.option("--repository", metavar="HOST/PATH", help="The repository to check instead of the stack's own.")
@click.option(
    "--boms", type=DIRECTORY, metavar="DIR", help="Write each image's bill of materials here (CycloneDX)."
)
def cli(stack: str | None, *, repository: str | None, boms: Path | None) -> None:
    """Build the controller's image for amd64 and arm64.

    With STACK the stack file and its repository are checked first, so that a build is not followed by a push
    that cannot succeed. The image is the same for every stack, but that one with `forecasts` in
    `muster:recording` gets the program that forecasts.
    """
    if stack is not None:
        repository_for(stack, repository)
    # Brings the image builder, which `--help` does not need.
    from muster.artifacts.publish.build import CREATED, build
    from muster.local.build.progress import Board, shown

    board = Board()
    with progress(), shown(board):
        images = build(board=board, has_player=stack is not None and has_player(existing_stack(stack)))
    for image in images:
        click.echo(f"{image.architecture:6} {image.digest}")
    click.echo(f"both   {digest_of(index_of(images))}")
    if boms is not None:
        boms.mkdir(parents=True, exist_ok=True)
        for image in images:
            file = boms / f"{image.digest.replace(':', '-')}.cdx.json"
            file.write_bytes(bill(image, created=CREATED))
            click.echo(f"{image.architecture:6} {file}")
