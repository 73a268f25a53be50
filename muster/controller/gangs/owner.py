"""The owner of a gang: a Workload or a RayCluster.

Responsible for how our objects are tied to it: an owner reference for garbage collection, and a label and an
annotation that lead back to it; and for which objects an Event about a gang is on.
"""

from dataclasses import dataclass
from typing import Any, Final

from muster.controller.gangs.actions import EmitEvent
from muster.controller.kube.resource import Key, Object, Resource
from muster.controller.runtime.events import EventRecorder, Reference

_ACTION: Final = "GangAdmission"
"""What Events report as done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """`uid_label` selects what is an owner's; `name_annotation` names it, because a label holds 63
    characters only.
    """

    resource: Resource[Any]
    object: Object
    uid_label: str
    name_annotation: str

    @property
    def key(self) -> Key:
        return self.object.key

    @property
    def uid(self) -> str:
        return self.object.metadata.uid

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.key}"

    def reference(self) -> dict[str, Any]:
        """No owner blocks a deletion: that would ask for rights on its finalizers, and nothing here has to
        go first.
        """
        return owner_reference(self.resource, self.object)


def emit_event(events: EventRecorder, owner: Owner, event: EmitEvent) -> None:
    """On it and on the job that owns it: users look there."""
    above = (each for each in owner.object.metadata.owner_references if each.controller)
    jobs = (
        Reference(each.api_version, each.kind, owner.key.namespace, each.name, each.uid) for each in above
    )
    for about in (Reference.to(owner.resource, owner.object), *jobs):
        events.event(about, event.kind, reason=event.reason, action=_ACTION, note=event.message)


def owner_reference(resource: Resource[Any], owner: Object) -> dict[str, Any]:
    meta = owner.metadata
    return {"apiVersion": resource.api_version, "kind": resource.kind, "name": meta.name, "uid": meta.uid}
