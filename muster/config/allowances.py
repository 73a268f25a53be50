"""Reads the allowance of a team or a department: quota, borrow, lend, weight.

Responsible for how an amount is written: a number of GPUs on a GPU pool, CPUs on a CPU pool, or a mapping
with `gpus`, `cpu`, `memory` and `resources` of any other name; for a quota also `unlimited`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from muster.model.keys import read_part
from muster.model.pools import Pool
from muster.model.quantities import Gpus, Millicores, parse_cpu, parse_memory
from muster.model.queues import Allowance, Amount, Bound, Limit, Share
from muster.model.section import Section, describe_value
from muster.model.violations import at

Pools = Mapping[str, Pool]

# How other programs write that there is no bound.
_UNLIMITED: Final = "unlimited"
_UNBOUNDED: Final = (-1, "-1", _UNLIMITED, "infinite", "inf", "max", "all")
_OF_QUOTA: Final = (
    f"write `{_UNLIMITED}` for no bound, or the amount that is guaranteed; `borrow: all` lets the team use "
    "all that is idle besides."
)
_ALL: Final = "write `all` for as much as others lend."


def parse_allowance(section: Section, pools: Pools) -> Allowance:
    """The four keys that teams and departments share. The caller reads the others and closes the section."""
    amounts = _amounts(section, pools)
    quota = {name: parse_amount(amounts, name, value, pools) for name, value in amounts.items()}
    return read_part(
        Allowance,
        section,
        quota=MappingProxyType({name: amount for name, amount in quota.items() if amount is not None}),
        borrow=_limit(section, "borrow", pools),
        lend=_limit(section, "lend", pools),
    )


def _amounts(section: Section, pools: Pools) -> Section:
    value = section.get("quota")
    if isinstance(value, int | float | str):
        message = f"must be a mapping from pools to amounts, is {describe_value(value)}."
        pool = next((name for name, each in pools.items() if each.is_gpu), "POOL")
        section.note("quota", message, f"name the pool: {{{pool}: {value}}}.")
        return Section(None, at(section.path, "quota"), section.found)
    return section.section("quota")


def _limit(section: Section, key: str, pools: Pools) -> Limit:
    value = section.get(key)
    if value is None:
        return Limit()
    if isinstance(value, str | int | float):
        bound = _bound(value)
        if bound is None:
            section.note(
                key, f"is {describe_value(value)}.", "write `none`, `all`, or amounts by pool: {l4: 2}."
            )
        return Limit(otherwise=bound)
    shares = section.section(key)
    found: dict[str, Share | None] = {}
    for name, share in shares.items():
        bound = _bound(share)
        found[name] = bound if bound is not None else parse_amount(shares, name, share, pools)
    return Limit(pools=MappingProxyType({name: share for name, share in found.items() if share is not None}))


def _bound(value: object) -> Bound | None:
    return Bound(value) if isinstance(value, str) and value in (Bound.NONE, Bound.ALL) else None


def parse_amount(section: Section, pool: str, value: object, pools: Pools) -> Amount | None:
    """Read `value` as an amount of `pool`. An unknown pool is read as a GPU pool; a rule reports it."""
    if isinstance(value, Mapping):
        return _detailed(Section(value, at(section.path, pool), section.found))
    is_quota = section.path.endswith(".quota")
    if is_quota and value == _UNLIMITED:
        return Amount(is_unlimited=True)
    if value in _UNBOUNDED:
        section.note(pool, f"is {describe_value(value)}, and has a bound.", _OF_QUOTA if is_quota else _ALL)
        return None
    known = pools.get(pool)
    if known is None or known.is_gpu:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return Amount(gpus=Gpus(value))
        if known is not None:
            digits = isinstance(value, str) and value.isdecimal()
            fix = f"write it without quotes: {value}." if digits else "write it like 4."
            section.note(pool, f"must be a whole number of GPUs, is {describe_value(value)}.", fix)
        return Amount() if known is None else None
    cpu = _cpu(section, pool, is_required=True)
    return None if cpu is None else Amount(cpu=cpu)


def _detailed(section: Section) -> Amount:
    gpus = section.integer("gpus", -1, least=0)
    cpu = _cpu(section, "cpu")
    fix = "write it like 512Mi or 16Gi."
    memory = section.parsed("memory", parse_memory, noun="an amount of memory", fix=fix)
    others = section.section("resources")
    named = {name: others.quantity(name) for name, _ in others.items()}
    section.close()
    return Amount(
        gpus=None if gpus in (None, -1) else Gpus(gpus),
        cpu=cpu,
        memory=memory,
        others=MappingProxyType({name: amount for name, amount in named.items() if amount is not None}),
    )


def _cpu(section: Section, key: str, *, is_required: bool = False) -> Millicores | None:
    fix = "write CPUs or thousandths: 4, 1.5 or 500m."
    return section.parsed(key, parse_cpu, noun="an amount of CPU", fix=fix, is_required=is_required)
