"""Reads `kai:` of a team or department: the settings of its KAI Queue.

Responsible for how a figure is written: an amount in the units of quotas, or `unlimited`. KAI's own -1 is
refused with the value to write instead. Not responsible for which values are legal (muster/validation).
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Final, TypeVar

from muster.config import bounds
from muster.model.kai import UNLIMITED, Figure, MilliGpus, QueueSettings, Share, Shares
from muster.model.quantities import parse_cpu, parse_memory, parse_quantity
from muster.model.section import Section, describe_value
from muster.model.violations import at

Amount = TypeVar("Amount", bound=int)

_WORD: Final = UNLIMITED.value
_NONE: Final = "none"


def parse_queue(section: Section, *, is_team: bool) -> QueueSettings:
    """The settings. Those of an absent section are all unset. `queue` is a name, or `none` for a department
    without a Queue.
    """
    if section.is_empty:
        return QueueSettings()
    pools = section.section("pools")
    priority = section.integer("priority", -1, least=0)
    queue = section.text("queue")
    if queue == _NONE and is_team:
        fix = "remove it, or write the name of the Queue."
        section.note("queue", "is for departments: a team's work needs a Queue.", fix)
    settings = QueueSettings(
        queue=None if queue == _NONE else queue,
        exists=queue != _NONE,
        display_name=section.text("displayName"),
        priority=None if priority == -1 else priority,
        preempt_min_runtime=section.seconds("preemptMinRuntime"),
        reclaim_min_runtime=section.seconds("reclaimMinRuntime"),
        shares=_shares(section),
        pools=MappingProxyType(
            {name: _pool(Section(value, at(pools.path, name), pools.found)) for name, value in pools.items()}
        ),
    )
    section.close()
    return settings


def _pool(section: Section) -> Shares:
    shares = _shares(section)
    section.close()
    return shares


def _shares(section: Section) -> Shares:
    return Shares(
        gpu=_share(section.section("gpu"), _gpus),
        cpu=_share(section.section("cpu"), parse_cpu),
        memory=_share(section.section("memory"), parse_memory),
    )


def _share(section: Section, parse: Callable[[str], Amount]) -> Share[Amount]:
    weight = section.integer("overQuotaWeight", -1, **bounds.SHARE)
    share = Share(
        quota=_figure(section, "quota", parse),
        limit=_figure(section, "limit", parse),
        over_quota_weight=None if weight == -1 else weight,
    )
    section.close()
    return share


def _figure(section: Section, key: str, parse: Callable[[str], Amount]) -> Figure[Amount] | None:
    value = section.get(key)
    if value is None:
        return None
    if value == _WORD:
        return UNLIMITED
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"{describe_value(value)} is not a number")
        return parse(str(value))
    except ValueError as error:
        section.note(key, f"must be an amount or `{_WORD}`: {error}.", _fix(value))
        return None


def _fix(value: object) -> str:
    if value in (-1, "-1"):
        return f"write `{_WORD}`, which is what KAI means by -1."
    return f"write an amount such as 4 (GPUs, in parts 0.5; CPU 500m; memory 16Gi), or `{_WORD}`."


def _gpus(text: str) -> MilliGpus:
    """GPUs and parts of them, to a thousandth."""
    thousandths = parse_quantity(text) * 1000
    if thousandths.denominator != 1:
        raise ValueError(f"{text!r} is finer than a thousandth of a GPU")
    return MilliGpus(int(thousandths))
