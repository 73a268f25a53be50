"""The owner of a gang: a Workload or a RayCluster.

Responsible for how our objects are tied to it: an owner reference for garbage collection, and a label and an
annotation that lead back to it; and for which objects an Event about a gang is on.
"""

from dataclasses import dataclass
from typing import Any, Final

from muster.controller.gangs.actions import EmitEvent
from muster.controller.gangs.objects import Belonging
from muster.controller.kube.resource import Key, Object, Resource
from muster.controller.runtime.events import EventRecorder, Reference
from muster.model.names import OWN_PREFIX, OWNER_NAMESPACE_ANNOTATION, PLACEHOLDER_NAMESPACE

_ACTION: Final = "GangAdmission"
"""What Events report as done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """A kind of owner. `uid_label` selects what is an owner's; `name_annotation` names it, because a label
    holds 63 characters only.
    """

    resource: Resource[Any]
    uid_label: str
    name_annotation: str

    def of(self, obj: Object) -> "Owner":
        return Owner(
            resource=self.resource,
            object=obj,
            uid_label=self.uid_label,
            name_annotation=self.name_annotation,
        )

    def keys_of(self, item: Belonging) -> list[Key]:
        """The object that this was made for, named in an annotation; none if it is not one of ours. Informers
        select by a label, which any client may put on an object of its own.
        """
        notes, namespace = item.metadata.annotations, item.metadata.namespace
        name = notes.get(self.name_annotation, "")
        is_ours = bool(name) and item.metadata.name.startswith(OWN_PREFIX)
        if namespace == PLACEHOLDER_NAMESPACE:  # Only we write there.
            namespace = notes.get(OWNER_NAMESPACE_ANNOTATION, "")
        return [Key(namespace, name)] if is_ours else []

    def uid_of(self, item: Belonging) -> str:
        """Of the object that this was made for."""
        return item.metadata.labels.get(self.uid_label, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One of them, and how what is made for it names it."""

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
