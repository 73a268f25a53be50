"""Actions on pods, beside those that all gangs share.

Each action is one write, is safe to repeat, and names its pod by uid.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from muster.controller.gangs.actions import (
    CreateRequest,
    CreateTemplates,
    Delete,
    EmitEvent,
    HoldNode,
)
from muster.controller.gangs.objects import Toleration
from muster.controller.gangs.retry import RetryHistory
from muster.controller.gangs.turn_order import TurnPosition
from muster.controller.kai.objects import GatedPod
from muster.controller.kai.queue_capacity import Shortfall
from muster.controller.kai.snapshot import BatchSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Ungate:
    """Stamp what the pod needs to claim its capacity and remove our gate, in one write."""

    pod: GatedPod
    annotations: Mapping[str, str]
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...] = ()
    """To be added to the pod's own."""
    hosts: tuple[str, ...] = ()
    """The only nodes where it may go, by their label; empty: wherever its selector lets it."""
    is_undisturbed: bool = False
    """Its autoscaler is asked to leave it alone, as on nodes of placeholders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteUnbound:
    """Delete a released pod that no node has: its gate cannot come back, but its controller makes it again,
    gated.

    `request` is what it was to consume; empty where that decides nothing: nothing was asked for, or its time
    is over.
    """

    pod: GatedPod
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRunning:
    """Delete a pod of a gang that queues again, wherever it is: KubeRay makes it again, gated."""

    pod: GatedPod


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchAnnotations:
    """Set the history and the words that a user reads on a batch's leader; take them off who led before."""

    pod: GatedPod
    history: RetryHistory
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchCluster:
    """Keep the history on the gang's object for pods that are made again, or take it off. `part`: of which of
    its gangs.
    """

    history: RetryHistory
    part: str = ""


Action = (
    CreateTemplates
    | CreateRequest
    | HoldNode
    | Delete
    | Ungate
    | DeleteUnbound
    | DeleteRunning
    | PatchAnnotations
    | PatchCluster
    | EmitEvent
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The actions, in order, and when to reconcile again even if nothing changes. Consecutive Ungates may be
    made concurrently, except the last.
    """

    actions: tuple[Action, ...] = ()
    requeue_at: datetime | None = None
    waits_for_nodes: bool = False
    begins: BatchSnapshot | None = None
    """The batch that takes room in its queue with this: what it requests, or the pods that pass."""
    shortfalls: tuple[Shortfall, ...] = ()
    """Queues without room that it waits for."""
    in_line: tuple[TurnPosition, ...] = ()
    """Batches that wait for their turn to make their first request."""
    to_preempt: BatchSnapshot | None = None
    """The batch that KAI is to make room for, once it has done so for another."""

    @property
    def is_final(self) -> bool:
        """A look at what it has written may follow: never known before."""
        return False

    @property
    def begins_attempt(self) -> bool:
        return self.begins is not None
