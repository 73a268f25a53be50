"""Cost: a ceiling for what a stack could spend, were all its pools full.

Counts the nodes that the stack's description allows the autoscaler to buy, not those that run. Prices are
those of `muster.model.prices`, overridden by those of the pack's config.
"""

from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from pulumi_policy import Severity

from muster.model import prices
from muster.model.machines import Machine
from muster.model.regions import Provider
from muster.policies.rule import Case, Finding, Rule, Threshold

_NUMBER: Final = {"type": "number", "minimum": 0}
_BY_NAME: Final = {"type": "object", "additionalProperties": _NUMBER}


def gpus(case: Case) -> Iterator[Finding]:
    """The GPUs of each accelerator that all pools together may have."""
    if case.stack is None:
        return
    most: dict[str, int] = defaultdict(int)
    for pool in case.stack.pools:
        if pool.accelerator is not None:
            most[pool.accelerator.name] += pool.max_gpus
    for accelerator, ceiling in sorted(case.settings["maxGpus"].items()):
        if most[accelerator] > ceiling:
            yield Finding(
                f"pools may grow to {most[accelerator]} {accelerator}; this stack may have {ceiling:g}."
            )


def hourly(case: Case) -> Iterator[Finding]:
    """The price of an hour with every pool full. A machine without a price is reported, not estimated. Nodes
    that their owner describes are not bought by the hour.
    """
    ceiling = case.settings["maxHourly"]
    if case.stack is None or ceiling is None:
        return
    own = prices.read({"prices": case.settings["prices"]})
    if isinstance(own, list):
        yield from (Finding(f"the pack's config: {violation}") for violation in own)
        return
    table, total = own.before(prices.BUILT_IN), Decimal(0)
    for pool in (each for each in case.stack.pools if not _is_theirs(each.machine)):
        price = table.of(pool, case.stack.cluster)
        if price is None:
            yield Finding(f"pool {pool.name}: {pool.machine.name} has no price, so it is not in the sum.")
        else:
            total += pool.max_nodes * price.hourly
    if total > Decimal(str(ceiling)):
        yield Finding(f"with every pool full an hour costs {total:,.2f}; this stack may cost {ceiling:,.2f}.")


def _is_theirs(machine: Machine) -> bool:
    return machine.is_own and machine.provider is Provider.EXISTING


RULES: Final = (
    Rule(
        name="gpu-ceiling",
        description="A stack cannot grow beyond the GPUs of each kind that it may have.",
        why="The autoscaler buys up to `maxNodes` of every pool without asking again.",
        judge=gpus,
        severity=Severity.HIGH,
        remediation="lower maxNodes of the pools, or raise maxGpus in the pack's config.",
        url="https://cloud.google.com/compute/resource-usage#gpu_quota",
        thresholds={"maxGpus": Threshold({}, _BY_NAME)},
    ),
    Rule(
        name="cost-ceiling",
        description="An hour with every pool full costs no more than the ceiling.",
        why=(
            "The autoscaler buys up to `maxNodes` of every pool. A machine without a price is reported and "
            "not estimated; nodes that their owner describes are not counted."
        ),
        judge=hourly,
        severity=Severity.HIGH,
        remediation="lower maxNodes of the pools, or raise maxHourly in the pack's config.",
        url="https://cloud.google.com/products/calculator",
        thresholds={
            "maxHourly": Threshold(None, {"type": ["number", "null"], "minimum": 0}),
            "prices": Threshold([], {"type": "array", "items": {"type": "object"}}),
        },
    ),
)
