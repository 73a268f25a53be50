"""`muster local doctor`."""

import importlib

import click

from muster.cli.command import command
from muster.errors import ExitCode
from muster.local import preflight
from muster.local.cluster import network_policies

_CODES = {
    ExitCode.DONE: "The local cluster can run here.",
    ExitCode.OUTSIDE: "It cannot; the message names the first obstacle and its fix.",
}


@command(examples="muster local doctor", codes=_CODES)
def cli() -> None:
    """Check whether this machine can run the local cluster.

    Looks at the operating system, permissions, disk, memory, packages and overlay mounts, as `muster local
    up` does before it starts, and changes nothing. A note names what the cluster would do without, such as
    enforced NetworkPolicies.
    """
    importlib.import_module("muster.cli.commands.local.up")  # Names the extra where a package is missing.
    preflight.check(may_install=False)
    click.echo("this machine can run the local cluster: muster local up")
    if why := network_policies.obstacle():
        click.echo(f"note: {network_policies.notice(why)}")
