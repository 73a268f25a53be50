"""`muster backend`: where state and secrets are kept."""

import click

from muster import config
from muster.cli.command import command
from muster.cli.options import existing_stack, stack_argument
from muster.cloud.backend import make
from muster.paths import stack_name


@command(examples="muster backend create gke-prod")
@stack_argument
def backend_create(stack: str) -> None:
    """Create the bucket and the key for a stack's state and secrets.

    Existing ones are not changed. Prints the two Pulumi commands that use them.
    """
    file = existing_stack(stack)
    backend = make(config.load(file).cluster)
    click.echo("# The bucket of the state and the key of its secrets exist. Now run:")
    click.echo("\n".join(backend.commands(stack_name(file))))
