"""The settings of a team's or department's KAI Queue (`kai:` in the tree), beyond quota, borrow and weight.

A field that is None is derived: quota and limit from the allowance, the weight from `weight`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Final, Generic, NewType, TypeAlias, TypeVar

from muster.model.definitions import DURATION, Schema, Spec
from muster.model.kai.shard import ORDER
from muster.model.keys import declared, read
from muster.model.quantities import (
    QUANTITY_PATTERN,
    Bytes,
    Millicores,
    parse_cpu,
    parse_memory,
    parse_quantity,
)
from muster.model.section import Section

# Amounts as KAI counts them: a number, or unlimited.
#
# KAI writes "unlimited" as -1, reads a missing figure as 0, and a limit of 0 as "nothing" (docs/queues of
# KAI 0.17.0). Here a figure is a typed amount or UNLIMITED, and only the renderer uses these numbers.

# A queue may have a part of a GPU: 500 is half of one.
MilliGpus = NewType("MilliGpus", int)


class Unlimited(Enum):
    """More than anything."""

    UNLIMITED = "unlimited"


UNLIMITED: Final = Unlimited.UNLIMITED

Amount = TypeVar("Amount", bound=int, covariant=True)
Figure: TypeAlias = Amount | Unlimited


def added(figures: Iterable[Figure[int]]) -> Figure[int]:
    """The sum; one figure without bound makes a sum without bound."""
    total = 0
    for figure in figures:
        if isinstance(figure, Unlimited):
            return UNLIMITED
        total += figure
    return total


def within(figure: Figure[int], bound: Figure[int]) -> bool:
    if isinstance(bound, Unlimited):
        return True
    return not isinstance(figure, Unlimited) and figure <= bound


# KAI's default, written explicitly so that a preview shows it.
DEFAULT_QUEUE_PRIORITY: Final = 100
_NONE: Final = "none"
_RUNTIME: Final[Schema] = {**DURATION, "default": "that of the shard"}
_FIGURE: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": ["number", "string"], "minimum": 0, "pattern": QUANTITY_PATTERN},
        {"const": UNLIMITED.value},
    ]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Generic[Amount]):
    """One resource of a queue. `over_quota_weight` counts among queues of one priority."""

    quota: Figure[Amount] | None = declared(
        "What is guaranteed.",
        None,
        default_text="from the quota of the team or department",
        example=4,
        schema=_FIGURE,
    )
    limit: Figure[Amount] | None = declared(
        "The most in all, quota included.",
        None,
        default_text="from `quota` and `borrow`",
        example=UNLIMITED.value,
        schema=_FIGURE,
    )
    over_quota_weight: int | None = declared(
        "Its share of what is free beyond all quotas.",
        None,
        default_text="from `weight`",
        example=2,
        maximum=1_000_000,
    )


def _reader(parse: Callable[[str], Amount]) -> Callable[[Section, str], Share[Amount]]:
    """Reads the figures of one resource: amounts in the units of quotas, or `unlimited`."""

    def read_share(above: Section, key: str) -> Share[Amount]:
        section = above.section(key)
        quota, limit = _figure(section, "quota", parse), _figure(section, "limit", parse)
        return read(Share, section, quota=quota, limit=limit) or Share()

    return read_share


def _figure(section: Section, key: str, parse: Callable[[str], Amount]) -> Figure[Amount] | None:
    value = section.get(key)
    if value == UNLIMITED.value:
        return UNLIMITED
    return section.parsed(key, parse, noun=f"an amount or `{UNLIMITED.value}`", fix=_fix(value))


def _fix(value: object) -> str:
    if value in (-1, "-1"):
        return f"write `{UNLIMITED.value}`, which is what KAI means by -1."
    return f"write an amount such as 4 (GPUs, in parts 0.5; CPU 500m; memory 16Gi), or `{UNLIMITED.value}`."


def _parse_gpus(text: str) -> MilliGpus:
    """GPUs and parts of them, to a thousandth."""
    thousandths = parse_quantity(text) * 1000
    if thousandths.denominator != 1:
        raise ValueError(f"{text!r} is finer than a thousandth of a GPU")
    return MilliGpus(int(thousandths))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The three resources that KAI counts."""

    gpu: Share[MilliGpus] = declared("GPUs of the queue.", Share(), read=_reader(_parse_gpus))
    cpu: Share[Millicores] = declared("CPU of the queue.", Share(), read=_reader(parse_cpu))
    memory: Share[Bytes] = declared("Memory of the queue.", Share(), read=_reader(parse_memory))


class QueueSpec(Spec):
    """The spec of a Queue, without what Muster writes from the tree."""

    KIND = "scheduling.run.ai/v2 Queue"
    ADDED: ClassVar[Mapping[str, Schema]] = {
        "parentQueue": {
            "refused": ("follows from the tree of departments", "remove it, and move the team in the tree")
        },
        "resources": {
            "refused": (
                "follows from quota, borrow and weight",
                "write what differs here: `gpu: {limit: 8}`, and so `cpu` and `memory`",
            )
        },
        "priority": {**ORDER, "default": DEFAULT_QUEUE_PRIORITY},
        "preemptMinRuntime": _RUNTIME,
        "reclaimMinRuntime": _RUNTIME,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """`spec` is the rest of the Queue, in KAI's words. `shares` are for the one Queue of a stack with one
    shard, `pools` for each pool's Queue. With `exists=False` (`queue: none`) those below a department have
    the parent that its Queue would have.
    """

    queue: str | None = declared(
        "The name of its Queue; `none` for a department without one, whose teams are a level higher. Where "
        "each pool has a Queue, the pool's name is appended.",
        None,
        default_text="its name",
        example="team.a",
    )
    exists: bool = field(default=True, metadata={"key": "queue"})
    shares: Shares = declared("", Shares(), is_inline=True)
    pools: Mapping[str, Shares] = declared(
        "The figures of each pool's queue, where each pool has one.",
        {},
        example={"l4": {"gpu": {"limit": 8}}},
    )
    # Last: what no key above has is KAI's own.
    spec: QueueSpec = declared("", {}, factory=QueueSpec, is_inline=True)

    @property
    def priority(self) -> int:
        """A queue with a higher one gets capacity over all quotas first and is reclaimed from last; it does
        not affect jobs.
        """
        priority: int = self.spec.get("priority", DEFAULT_QUEUE_PRIORITY)
        return priority

    @staticmethod
    def complete(_section: Section, values: dict[str, Any]) -> dict[str, Any]:
        exists = values["queue"] != _NONE
        return {**values, "queue": values["queue"] if exists else None, "exists": exists}

    def of(self, pool: str | None) -> Shares:
        """The shares of a pool's Queue; None: of the only Queue."""
        return self.shares if pool is None else self.pools.get(pool, Shares())
