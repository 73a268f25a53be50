"""Who may preempt whom: what every scheduler's rules have in common.

Kueue's rules are in preemption.py, those of KAI in kai.py. "May" does not depend on the running work:
whether a preemption happens depends on which team has work.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar


class Right(StrEnum):
    """Why one team may preempt another: it takes its own quota back, or both share evenly what they
    borrow.
    """

    RECLAIM = "reclaims its quota"
    FAIR = "fair sharing"


Profile = TypeVar("Profile", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PreemptionRules(ABC, Generic[Profile]):
    """The rules of one stack's scheduler, applied to the teams of that stack. `profiles`: everything that a
    team's rights depend on; teams with equal profiles have equal rights.
    """

    profiles: Mapping[str, Profile]

    def rights(self, preemptor: str, victim: str) -> dict[str, Right]:
        """Pool -> the right by which one team may preempt another team. Empty where a team is unknown."""
        one, two = self.profiles.get(preemptor), self.profiles.get(victim)
        return {} if one is None or two is None else self.rights_between(one, two)

    def can_preempt_within(self, team: str) -> bool:
        """Whether work of the team may preempt other work of the same team."""
        found = self.profiles.get(team)
        return found is not None and self.is_preempted_within(found)

    def takers(self, team: str) -> tuple[str, str] | None:
        """The priorities of a team whose work takes the GPUs of its own other work where no more nodes come,
        because Muster's gate lets it; None where nothing does.
        """
        return None

    @staticmethod
    @abstractmethod
    def rights_between(preemptor: Profile, victim: Profile) -> dict[str, Right]: ...

    @staticmethod
    @abstractmethod
    def is_preempted_within(team: Profile) -> bool: ...


Rules = PreemptionRules[Any]
"""Of either scheduler."""


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
