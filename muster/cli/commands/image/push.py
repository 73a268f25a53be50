"""`muster image push`."""

import click

from muster.artifacts.publish.build import make_repository
from muster.artifacts.publish.stackfile import write_image
from muster.cli.command import command
from muster.cli.commands.image.repository import has_player
from muster.cli.commands.image.repository import repository as repository_for
from muster.cli.options import existing_stack, stack_argument
from muster.cli.output import progress
from muster.errors import ExitCode
from muster.paths import stack_name

_EXAMPLES = """
muster image push gke-prod
muster image push lab --repository registry.example.com/muster/gang-admission
"""


@command(examples=_EXAMPLES, codes={ExitCode.OUTSIDE: "The registry, the cloud or Pulumi failed."})
@stack_argument
@click.option(
    "--repository", metavar="HOST/PATH", help="Push here instead of to the repository of the stack."
)
def cli(stack: str, *, repository: str | None) -> None:
    """Push the controller's image and write its digest into the stack file.

    For a stack with `forecasts` in `muster:recording` the image also holds the program that forecasts.

    The stack file and the repository are checked before anything is built. The stack's own repository is
    created where it is missing. A bill of materials is attached to the image of each processor. Pushed layers
    are kept after Ctrl-C; run the command again to continue.
    """
    file, place = existing_stack(stack), repository_for(stack, repository)
    if repository is None:
        make_repository(stack_name(file))
    # Brings the image builder, which `--help` does not need.
    from muster.artifacts.publish.build import publish

    with progress():
        digest = publish(place, has_player=has_player(file))
    write_image(file, f"{place}@{digest}")
    click.echo(f"{place}@{digest}\nwritten to {file}: commit it")
