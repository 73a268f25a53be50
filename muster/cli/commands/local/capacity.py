"""`muster local capacity`."""

from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.local_cluster import kubeconfig_of
from muster.cli.options import kubeconfig_option, name_option
from muster.local.simulated_cloud.script import set_stock


@command(examples="muster local capacity h100 0\nmuster local capacity h100 4")
@click.argument("pool")
@click.argument("nodes", type=click.IntRange(min=0))
@name_option
@kubeconfig_option
def cli(pool: str, *, nodes: int, name: str, kubeconfig: Path | None) -> None:
    """Set how many nodes of a pool the simulated cloud has in stock."""
    set_stock(kubeconfig_of(name, kubeconfig), pool, nodes)
    click.echo(f"{pool}: {nodes} in stock")
