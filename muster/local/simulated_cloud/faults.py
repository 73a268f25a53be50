"""The scripted faults: what goes wrong, in which pool, for which requests, and when.

One key of the ConfigMap `muster-plane/faults` is one fault, a JSON or YAML mapping; beside them `seed` (a
number) and `capacity` (pool: stock). A fault with a count affects the first so many requests that meet it,
and keeps their uids in its own key, so that a restart affects no others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import yaml

from muster.local.quantities import seconds, timestamp
from muster.local.simulated_cloud import names

ANY_POOL: Final = "*"
_UNREADABLE: Final = (
    *(yaml.YAMLError, AttributeError, LookupError, TypeError),
    *(ValueError, ArithmeticError, RecursionError),
)


class FaultKind(StrEnum):
    STOCK_OUT = "stock-out"  # no capacity: the request fails, or with mode wait never ends waiting
    PARTIAL = "partial"  # fewer nodes than were promised, and no word about it
    DELAY = "delay"  # everything comes, later
    STAGGER = "stagger"  # it comes when the booking of its siblings is over
    REVOKE = "revoke"  # the cloud takes the nodes back
    EXPIRE = "expire"  # the booking ends at once
    SILENCE = "silence"  # no answer of any sort


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of the script; times are real, `by` is real seconds."""

    name: str
    pool: str
    kind: FaultKind
    start: float = 0.0
    end: float | None = None
    count: int | None = None
    wait: bool = False
    by: float | None = None
    missing: int | None = None
    hits: frozenset[str] = frozenset()

    def active(self, now: float) -> bool:
        return self.start <= now and (self.end is None or now < self.end)


@dataclass(slots=True)
class FaultBook:
    """The faults of one decision; `new_hits` grows as requests meet them."""

    faults: tuple[Fault, ...] = ()
    capacity: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    new_hits: list[tuple[str, str]] = field(default_factory=list)

    def hit(self, kind: FaultKind, pools: Iterable[str], uid: str, now: float) -> Fault | None:
        """The first active fault of the kind that this request meets in one of the pools."""
        places = {*pools, ANY_POOL}
        for fault in self.faults:
            if fault.kind is not kind or fault.pool not in places or not fault.active(now):
                continue
            if fault.count is None or self._counted(fault, uid, fault.count):
                return fault
        return None

    def _counted(self, fault: Fault, uid: str, count: int) -> bool:
        met = fault.hits | {hit for name, hit in self.new_hits if name == fault.name}
        if uid in met:
            return True
        if len(met) >= count:
            return False
        self.new_hits.append((fault.name, uid))
        return True

    def chance(self, uid: str) -> float:
        """A number in 0..1 that the seed and the uid alone decide."""
        digest = hashlib.sha256(f"{self.seed}/{uid}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64


def parse(data: Mapping[str, str], *, scale: float = 1.0) -> tuple[FaultBook, list[str]]:
    """The script, and one complaint for each entry that is not usable."""
    faults: list[Fault] = []
    complaints: list[str] = []
    capacity: dict[str, int] = {}
    seed = 0
    for key in sorted(data):
        try:
            entry = yaml.safe_load(data[key])
            if key == "seed":
                seed = int(entry)
            elif key == names.CAPACITY_KEY:
                capacity = {str(pool): max(0, int(stock)) for pool, stock in (entry or {}).items()}
            else:
                faults.append(_fault(key, entry, scale))
        except _UNREADABLE as error:
            complaints.append(f"fault {key!r} is ignored: {type(error).__name__}: {error}")
    return FaultBook(tuple(faults), capacity, seed), complaints


def _fault(name: str, entry: Mapping[str, Any], scale: float) -> Fault:
    start = timestamp(entry["at"]) if "at" in entry else 0.0
    start += seconds(entry.get("after", "0s")) / scale
    mode = entry.get("mode", "fail")
    if mode not in ("fail", "wait"):
        raise ValueError(f"mode {mode!r}; allowed: fail, wait")
    return Fault(
        name=name,
        pool=str(entry["pool"]),
        kind=FaultKind(entry["kind"]),
        start=start,
        end=start + seconds(entry["for"]) / scale if "for" in entry else None,
        count=max(0, int(entry["count"])) if "count" in entry else None,
        wait=mode == "wait",
        by=seconds(entry["by"]) / scale if "by" in entry else None,
        missing=max(0, int(entry["missing"])) if "missing" in entry else None,
        hits=frozenset(map(str, entry.get("hits") or ())),
    )
