"""`muster local fault`."""

from pathlib import Path
from typing import Final

import click

from muster.cli.command import command
from muster.cli.local_cluster import kubeconfig_of
from muster.cli.options import MemberType, kubeconfig_option, name_option
from muster.errors import MusterError
from muster.local.quantities import seconds
from muster.local.simulated_cloud.faults import FaultKind
from muster.local.simulated_cloud.script import MEANING, Fault, NodeSign, add_fault, break_node

_EXAMPLES = """
muster local fault h100 stock-out --for 5m
muster local fault l4 delay --by 90s --count 2
muster local fault '*' silence --after 10s
muster local fault node NAME --xid 79
muster local fault node NAME --sign black-hole
"""
_NODE: Final = "node"
_KINDS: Final = MemberType(FaultKind)


class Duration(click.ParamType[str]):
    """Such as `60s`; stays text, which is what the simulated cloud reads."""

    name = "duration"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            seconds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value


@command(examples=_EXAMPLES)
@click.argument("pool")
@click.argument("kind", metavar="KIND")
@click.option(
    "--count", type=click.IntRange(min=1), metavar="N", help="Hit this many requests, then no more."
)
@click.option(
    "--for", "duration", type=Duration(), metavar="TIME", help="How long, such as 60s, in the cloud's time."
)
@click.option("--after", type=Duration(), metavar="TIME", help="Begin only after this time.")
@click.option("--by", type=Duration(), metavar="TIME", help="For `delay` and `stagger`: how much later.")
@click.option(
    "--missing", type=click.IntRange(min=1), metavar="N", help="For `partial`: how many nodes never come."
)
@click.option("--wait", is_flag=True, help="For `stock-out`: requests wait forever instead of failing.")
@click.option("--xid", type=click.IntRange(min=1), metavar="N", help="For a node: NVIDIA's error N.")
@click.option(
    "--sign",
    type=MemberType(NodeSign),
    help="For a node: what shows that it is broken; none: no more.",
)
@name_option
@kubeconfig_option
def cli(
    pool: str,
    *,
    kind: str,
    count: int | None,
    duration: str | None,
    after: str | None,
    by: str | None,
    missing: int | None,
    wait: bool,
    xid: int | None,
    sign: NodeSign | None,
    name: str,
    kubeconfig: Path | None,
) -> None:
    """Break a pool of the simulated cloud, or a node.

    POOL is the name of a pool, or '*' for every one. With POOL `node`, KIND is the name of a node, which gets
    a sign by --xid or --sign.
    """
    if xid is not None or sign is not None:
        if pool != _NODE:
            raise MusterError(f"{pool}: --xid and --sign break a node.", fix="write `node NAME` before them.")
        break_node(kubeconfig_of(name, kubeconfig), kind, sign or NodeSign.XID, xid=xid or 79)
        click.echo(f"node {kind}: {sign or f'xid {xid}'}")
        return
    fault = Fault(
        pool=pool,
        kind=_KINDS.convert(kind, None, click.get_current_context()),
        count=count,
        duration=duration,
        after=after,
        by=by,
        missing=missing,
        waits=wait,
    )
    entry, text = add_fault(kubeconfig_of(name, kubeconfig), fault)
    click.echo(f"{entry}: {text}")


cli.add_section("Kinds", [f"{kind:10} {meaning}" for kind, meaning in MEANING.items()])
