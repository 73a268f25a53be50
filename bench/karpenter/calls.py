"""Calls to the API server that a gang costs, from the server's own audit log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bench.gangs import audit

# The bench looks all the time, KWOK stands for kubelets, and the API server calls itself.
_COUNTED: Final = ("muster-manager", "kueue", "karpenter", "kube-scheduler", "kube-controller-manager")


@dataclass(frozen=True, slots=True)
class Span:
    """The time of one gang, from its creation until it runs and nothing of Muster's is left on its nodes."""

    begun: datetime
    ended: datetime

    def holds(self, call: audit.Call) -> bool:
        return self.begun <= call.at <= self.ended


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one gang, the mean: calls by program, and how many of all are writes."""

    calls: dict[str, float]
    writes: float

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {count:.0f}" for name, count in sorted(self.calls.items()))
        return f"{sum(self.calls.values()):.0f} calls a gang, {self.writes:.0f} of them writes ({parts})"


def cost(calls: Iterable[audit.Call], spans: Iterable[Span]) -> Cost:
    """Without watches and leases, whose number depends on the time alone."""
    gangs, counted, writes = list(spans), Counter[str](), 0
    for call in calls:
        if call.agent not in _COUNTED or call.verb == "watch" or call.resource == audit.LEASES:
            continue
        if any(span.holds(call) for span in gangs):
            counted[call.agent] += 1
            writes += call.is_write
    return Cost({name: count / len(gangs) for name, count in counted.items()}, writes / len(gangs))
