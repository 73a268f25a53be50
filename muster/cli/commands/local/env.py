"""`muster local env`."""

import shlex

import click

from muster.cli.command import command
from muster.cli.local_cluster import living
from muster.cli.options import name_option
from muster.local.cluster.settings import environment


@command(examples='eval "$(muster local env)"')
@name_option
def cli(name: str) -> None:
    """Print shell lines that point pulumi and kubectl at the local cluster."""
    for variable, value in environment(living(name)).items():
        click.echo(f"export {variable}={shlex.quote(value)}")
