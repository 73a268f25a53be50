"""`muster render`."""

from typing import Final

import click
import yaml

from muster.cli.command import command
from muster.cli.options import existing_stack, stack_argument
from muster.cli.output import STDOUT, put
from muster.config import load
from muster.errors import ExitCode
from muster.render import queues

_EXAMPLES = """
muster render gke-prod
muster render gke-prod --out manifests/gke-prod.yaml
muster render gke-prod | kubectl apply --dry-run=server -f -
"""
_WIDTH: Final = 110
_CODES = {ExitCode.FOUND: "The stack file has mistakes.", ExitCode.UNUSABLE: "The file is not there."}


@command(examples=_EXAMPLES, codes=_CODES)
@stack_argument
@click.option("--out", default=STDOUT, metavar="OUT", help="Write into this file; - is standard output.")
def cli(stack: str, *, out: str) -> None:
    """Write the queue objects of a stack as YAML, in the order in which they can be applied.

    Priorities, flavors, checks and queues of Kueue or KAI, and the namespaces of teams with what Muster puts
    into them, for Argo CD, Flux, kustomize or kubectl. Not among them: the programs, gang admission
    and admission policies, which `pulumi up` installs.
    """
    objects = queues.objects(load(existing_stack(stack)))
    put(out, yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH))


class _Dumper(yaml.SafeDumper):
    """Writes every value out: objects share parts, and an alias reads badly in a manifest."""

    def ignore_aliases(self, data: object) -> bool:
        return True
