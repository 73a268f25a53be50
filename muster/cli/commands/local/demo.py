"""`muster local demo`."""

import click

from muster.cli.command import command
from muster.cli.options import autoscaler_option, name_option, programs_option, scheduler_option
from muster.errors import ExitCode
from muster.local.demo.scenarios import STORIES
from muster.local.demo.tour import tour
from muster.local.karpenter import Autoscaler
from muster.model.stack import Scheduler

_EXAMPLES = """
muster local demo
muster local demo --scheduler kai
muster local demo --scheduler kai --story inference
muster local demo --autoscaler karpenter
make up
"""


@command(
    examples=_EXAMPLES,
    codes={ExitCode.FOUND: "A step failed; its own exit code is returned."},
)
@name_option
@programs_option
@scheduler_option
@autoscaler_option
@click.option(
    "--story",
    type=click.Choice(list(STORIES)),
    help="The example to run (see `muster local story --help`). Default: the first of the stack.",
)
def cli(
    name: str, *, programs: str | None, scheduler: Scheduler, autoscaler: Autoscaler, story: str | None
) -> None:
    """Start the local cluster, deploy stack `local` with Pulumi, and run the gang example on it.

    With --scheduler kai the stack is `local-kai`, and the example a RayCluster of five pods. With
    --autoscaler karpenter the stack is `local-karpenter`, and the example a gang of which the cloud has half
    in stock. Every step is a command that a user could type. The local cluster is left running.
    """
    tour(name, programs=programs, scheduler=scheduler, autoscaler=autoscaler, story=story)
