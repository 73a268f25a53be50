"""What the state machine can ask its executor to do.

Decides the vocabulary between machine.py and reconciler.py: each action is one write, is safe to do twice,
and names its object so exactly that a stale decision hits nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from controller.admission.objects import Belonging, PodSetUpdate, ProvisioningRequest
from controller.admission.retry import History
from controller.admission.split import Ask


class State(StrEnum):
    """The states of a check, as Kueue spells them."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTemplates:
    """Write the PodTemplates of a request, one a PodSet. They come first: autoscalers fail requests
    without.
    """

    request: str
    ask: Ask
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    name: str
    ask: Ask
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete exactly this object, by uid; it may be gone already."""

    kind: Literal["ProvisioningRequest", "PodTemplate"]
    namespace: str
    name: str
    uid: str


def delete(item: Belonging) -> Delete:
    """The deletion of exactly this object."""
    meta = item.metadata
    if isinstance(item, ProvisioningRequest):
        return Delete(kind="ProvisioningRequest", namespace=meta.namespace, name=meta.name, uid=meta.uid)
    return Delete(kind="PodTemplate", namespace=meta.namespace, name=meta.name, uid=meta.uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEntry:
    """Apply our whole entry on the Workload."""

    state: State
    message: str
    updates: tuple[PodSetUpdate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOut:
    """Deactivate the Workload and note on it, in the same write, that it was us and until when."""

    history: History


@dataclass(frozen=True, slots=True, kw_only=True)
class StepIn:
    """Activate the Workload that we deactivated, and take the note off in the same write."""

    history: History


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Set the history on the Workload; what it does not hold is removed."""

    history: History


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """An Event on the Workload and on the job that owns it."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


Action = CreateTemplates | CreateRequest | Delete | SetEntry | StepOut | StepIn | Note | Tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The actions, in order, and when to look again even if nothing happens."""

    actions: tuple[Action, ...] = ()
    wake: datetime | None = None
    waits_for: Literal["", "nodes", "turn"] = ""
    """Whose news should bring this Workload back: the nodes', or the gang's that goes before it."""

    @property
    def is_quiet(self) -> bool:
        return not self.actions
