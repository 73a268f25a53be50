"""`muster local kubeconfig`."""

import click

from muster.cli.command import command
from muster.cli.local_cluster import living
from muster.cli.options import name_option


@command(examples="kubectl --kubeconfig $(muster local kubeconfig --path) get nodes")
@name_option
@click.option("--path", "as_path", is_flag=True, help="Print the path of the file instead of its content.")
def cli(name: str, *, as_path: bool) -> None:
    """Print the kubeconfig of the local cluster."""
    cluster = living(name)
    click.echo(cluster.kubeconfig if as_path else cluster.kubeconfig.read_text())
