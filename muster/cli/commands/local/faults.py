"""`muster local faults`."""

from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.local_cluster import kubeconfig_of
from muster.cli.options import kubeconfig_option, name_option
from muster.local.simulated_cloud.script import clear_faults, read_faults


@command(examples="muster local faults list\nmuster local faults clear")
@click.argument("action", type=click.Choice(["list", "clear"]))
@name_option
@kubeconfig_option
def cli(action: str, *, name: str, kubeconfig: Path | None) -> None:
    """List or clear the faults of the simulated cloud."""
    cluster = kubeconfig_of(name, kubeconfig)
    if action == "clear":
        clear_faults(cluster)
        return
    for entry, text in sorted(read_faults(cluster).items()):
        click.echo(f"{entry}: {text}")
