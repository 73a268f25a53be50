"""Who may preempt whom: what every scheduler's rules have in common.

Kueue's rules are in preemption.py, those of KAI in kai.py. "May" does not depend on the running work:
whether a preemption happens depends on which team has work.
"""

from collections.abc import Collection, Hashable, Mapping
from enum import StrEnum
from typing import Protocol


class Right(StrEnum):
    """Why one team may preempt another: it takes its own quota back, or both share evenly what they
    borrow.
    """

    RECLAIM = "reclaims its quota"
    FAIR = "fair sharing"


class PreemptionRules(Protocol):
    """The rules of one stack's scheduler, applied to the teams of that stack."""

    @property
    def teams(self) -> Collection[str]: ...

    def profile(self, team: str) -> Hashable:
        """Everything that the team's rights depend on: teams with equal profiles have equal rights."""

    def rights(self, preemptor: str, victim: str) -> Mapping[str, Right]:
        """Pool -> the right by which one team may preempt another team. Empty where a team is unknown."""

    def can_preempt_within(self, team: str) -> bool:
        """Whether work of the team may preempt other work of the same team."""


def below_common_parent(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[int, int]:
    """How many queues of each chain, the team included, lie below the first department that both share.

    `ours` and `theirs` are the departments from the team's own to the top. Chains that share none meet at the
    root.
    """
    shared = 0
    for mine, other in zip(reversed(ours), reversed(theirs), strict=False):
        if mine != other:
            break
        shared += 1
    return len(ours) + 1 - shared, len(theirs) + 1 - shared
