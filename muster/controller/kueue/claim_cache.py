"""What other gangs were promised, remembered until something that it is made from changes.

Decides whose promises come before whose. A gang that checks its nodes has to leave room for every promise
that is not used yet: to work each of them out anew, every time, would cost the square of their number.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.controller.kueue.actions import State
from muster.controller.kueue.snapshot import Situation

Version = tuple[object, ...]
Rank = tuple[bool, datetime, str]

_MOST: Final = 4096
"""Gangs that are remembered: more than wait for their pods at a time, and a few megabytes."""


@dataclass(frozen=True, slots=True)
class Promised:
    """A gang as it was at one version. `rank` is None when it holds no promises."""

    situation: Situation
    rank: Rank | None


class Memory:
    """The latest of each gang."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[Version, Promised]] = OrderedDict()

    def recall(self, uid: str, check: str, version: Version, make: Callable[[], Situation]) -> Promised:
        """What is known of this version; made when that is nothing. Raises what `make` raises, and ValueError
        for a quantity that is none.
        """
        known = self._known.get((uid, check))
        if known is None or known[0] != version:
            situation = make()
            known = version, Promised(situation, rank(situation) if situation.holds_promises else None)
            self._known[uid, check] = known
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        self._known.move_to_end((uid, check))
        return known[1]


def rank(situation: Situation) -> Rank:
    """Who is promised room first: gangs that are Ready, then the one whose last piece came first."""
    moments = [request.status.since("Provisioned") for request in situation.current.values()]
    last = max((moment for moment in moments if moment), default=situation.now)
    return not is_whole(situation), last, situation.workload.metadata.uid


def is_whole(situation: Situation) -> bool:
    return situation.entry is not None and situation.entry.state == State.READY
