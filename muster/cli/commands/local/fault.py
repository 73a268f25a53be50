"""`muster local fault`."""

from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.local_cluster import kubeconfig_of
from muster.cli.options import MemberType, kubeconfig_option, name_option
from muster.local.quantities import seconds
from muster.local.simulated_cloud.faults import FaultKind
from muster.local.simulated_cloud.script import MEANING, Fault, add_fault

_EXAMPLES = """
muster local fault h100 stock-out --for 5m
muster local fault l4 delay --by 90s --count 2
muster local fault '*' silence --after 10s
"""


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
@click.argument("kind", type=MemberType(FaultKind), metavar="KIND")
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
@name_option
@kubeconfig_option
def cli(
    pool: str,
    *,
    kind: FaultKind,
    count: int | None,
    duration: str | None,
    after: str | None,
    by: str | None,
    missing: int | None,
    wait: bool,
    name: str,
    kubeconfig: Path | None,
) -> None:
    """Break a pool of the simulated cloud. POOL is the name of a pool, or '*' for every one."""
    fault = Fault(
        pool=pool,
        kind=kind,
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
