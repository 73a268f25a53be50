"""Actions on a Workload, beside those that all gangs share.

Each action is one write, is safe to repeat, and names its object so exactly that a stale decision changes
nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from muster.controller.gangs.actions import (
    CreatePlaceholders,
    CreateRequest,
    CreateTemplates,
    Delete,
    EmitEvent,
    HoldNode,
)
from muster.controller.gangs.retry import RetryHistory
from muster.controller.kueue.objects import PodSetUpdate
from muster.model.gangpolicy import GangPolicy


class State(StrEnum):
    """The states of a check, as Kueue spells them."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCheckState:
    """Apply our whole check state on the Workload."""

    state: State
    message: str
    updates: tuple[PodSetUpdate, ...] = ()
    attempt: str = field(default="", compare=False)
    """Of an answer to this attempt, which ends where the API server refuses the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deactivate:
    """Deactivate the Workload and note on it, in the same write, that this controller did, and until when."""

    history: RetryHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class Reactivate:
    """Activate the Workload that this controller deactivated, and remove that note in the same write."""

    history: RetryHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFlavorAffinity:
    """Keep the PodSets of a Workload without quota away from these pools; without pools, undo it."""

    pools: tuple[str, ...]
    policy: GangPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchAnnotations:
    """Set the history on the Workload; what it does not contain is removed."""

    history: RetryHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveClaims:
    """Take the claims off the pod templates of the gang's RayCluster, and recycle pods that were born with
    them and can never be scheduled; then set `history`, once Kueue has started the cluster and every pod of
    the slice may be scheduled.
    """

    selectors: tuple[str, ...]
    history: RetryHistory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRunningPods:
    """Count which pods of the gang's RayCluster may be scheduled and whose capacity they use, and note it: no
    earlier slice can ungate more of them. `most`: what cannot be exceeded, where that is known.
    """

    most: Mapping[str, int] | None = None


Action = (
    CreateTemplates
    | CreateRequest
    | CreatePlaceholders
    | HoldNode
    | Delete
    | SetCheckState
    | Deactivate
    | Reactivate
    | SetFlavorAffinity
    | PatchAnnotations
    | RemoveClaims
    | RecordRunningPods
    | EmitEvent
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The actions, in order, and when to reconcile again even if nothing changes."""

    actions: tuple[Action, ...] = ()
    requeue_at: datetime | None = None
    waits_for_nodes: bool = False
    is_final: bool = False
    """Once it is carried out nothing is left to decide until something changes."""

    @property
    def begins_attempt(self) -> bool:
        return any(isinstance(action, Reactivate | CreateRequest) for action in self.actions)
