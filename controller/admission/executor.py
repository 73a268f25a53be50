"""The hands of the state machine: each action as one call to the API.

Decides how a stale decision is kept from doing harm. Every write to the Workload carries the resourceVersion
that the decision was made from, every deletion the uid; before anything is deleted the Workload is read live.
A create that finds its name taken believes it only when the owner's uid fits. Leaves what to do to
machine.py.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from controller.admission.actions import (
    Action,
    CreateRequest,
    CreateTemplates,
    Delete,
    Note,
    SetEntry,
    StepIn,
    StepOut,
    Tell,
    delete,
)
from controller.admission.identity import WORKLOAD_UID, template_name
from controller.admission.objects import (
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    WHOLE_WORKLOAD,
    WORKLOAD,
    Belonging,
    Flavors,
    PodTemplate,
    Workload,
)
from controller.admission.retry import History, annotations
from controller.admission.templates import is_ours, pod_template, provisioning_request
from controller.kube.client import Client
from controller.kube.errors import AlreadyExists, NotFound
from controller.kube.resource import Key, Object, Resource, T
from controller.runtime.events import EventRecorder, Reference
from controller.runtime.informer import Informer

ACTION = "GangAdmission"


class StaleDecision(Exception):
    """The Workload is not any more what the decision was made from. Nothing was done; decide again."""


class NameTaken(Exception):
    """An object with the name of ours belongs to somebody else; a person has to look."""


class Executor:
    """Carries out the actions of one decision, in order. What it writes goes into the caches at once."""

    def __init__(
        self,
        client: Client,
        *,
        events: EventRecorder,
        caches: Mapping[Resource[Any], Informer[Any]],
        clock: Callable[[], datetime],
    ) -> None:
        self._client, self._events, self._caches, self._clock = client, events, caches, clock

    async def run(
        self, actions: tuple[Action, ...], *, workload: Workload, check: str, flavors: Flavors
    ) -> None:
        if any(isinstance(action, Delete) for action in actions):
            await self._confirm(workload)
        for action in actions:
            match action:
                case SetEntry():
                    workload = await self._set_entry(workload, check, action)
                case StepOut(history=history):
                    workload = await self._patch(workload, history, active=False)
                case StepIn(history=history):
                    workload = await self._patch(workload, history, active=True)
                case Note(history=history):
                    workload = await self._patch(workload, history, active=None)
                case CreateTemplates():
                    await self._create_templates(workload, action, flavors)
                case CreateRequest():
                    await self._create_request(workload, action)
                case Delete():
                    await self._delete(action)
                case Tell():
                    self._tell(workload, action)

    async def release_orphan(self, item: Belonging, *, of: Key) -> None:
        """Delete what was made for a Workload that is gone; looks live whether it is."""
        uid = item.metadata.labels.get(WORKLOAD_UID, "")
        try:
            live = await self._client.get(WORKLOAD, of)
        except NotFound:
            pass
        else:
            if live.metadata.uid == uid:
                return
        await self._delete(delete(item))

    async def _delete(self, action: Delete) -> None:
        resource: Resource[Any] = (
            PROVISIONING_REQUEST if action.kind == PROVISIONING_REQUEST.kind else POD_TEMPLATE
        )
        key = Key(action.namespace, action.name)
        try:
            await self._client.delete(resource, key, uid=action.uid)
        except NotFound:
            return

    async def _confirm(self, workload: Workload) -> None:
        """A live look before anything is deleted: a cache may lag behind a new reservation."""
        try:
            live = await self._client.get(WORKLOAD, workload.key)
        except NotFound:
            return
        if live.metadata.resource_version != workload.metadata.resource_version:
            self._remember(WORKLOAD, live)
            raise StaleDecision(f"Workload {workload.key} has changed")

    async def _set_entry(self, workload: Workload, check: str, action: SetEntry) -> Workload:
        """Our whole entry, so that nothing of an earlier one stays; force, because Kueue applies it too."""
        before = workload.entry(check)
        kept = before.last_transition_time if before and before.state == action.state else None
        entry = {
            "name": check,
            "state": action.state.value,
            "message": action.message[:32_000],
            "lastTransitionTime": (kept or self._clock()).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "podSetUpdates": [msgspec.to_builtins(update) for update in action.updates],
        }
        body = {
            "metadata": {"uid": workload.metadata.uid, "resourceVersion": workload.metadata.resource_version},
            "status": {"admissionChecks": [entry]},
        }
        applied = await self._client.apply(
            WORKLOAD, workload.key, _named(workload, body), subresource="status", force=True
        )
        return self._remember(WORKLOAD, applied)

    async def _patch(self, workload: Workload, history: History, *, active: bool | None) -> Workload:
        body: dict[str, Any] = {
            "metadata": {
                "uid": workload.metadata.uid,
                "resourceVersion": workload.metadata.resource_version,
                "annotations": dict(annotations(history)),
            }
        }
        if active is not None:
            body["spec"] = {"active": active}
        return self._remember(WORKLOAD, await self._client.merge_patch(WORKLOAD, workload.key, body))

    async def _create_templates(self, workload: Workload, action: CreateTemplates, flavors: Flavors) -> None:
        whole = await self._client.get(WHOLE_WORKLOAD, workload.key)
        if whole.metadata.uid != workload.metadata.uid:
            raise StaleDecision(f"Workload {workload.key} is another one of that name")
        templates = {pod_set.name: pod_set.template for pod_set in whole.spec.pod_sets}
        for number, demand in enumerate(action.ask.demands):
            body = pod_template(
                workload,
                name=template_name(action.request, number),
                template=templates[demand.pod_set],
                demand=demand,
                flavors=flavors,
                labels=action.labels,
            )
            await self._create(POD_TEMPLATE, body, workload)

    async def _create_request(self, workload: Workload, action: CreateRequest) -> None:
        names = [template_name(action.name, number) for number in range(len(action.ask.demands))]
        templates = [await self._template(Key(workload.metadata.namespace, name)) for name in names]
        body = provisioning_request(
            workload, name=action.name, ask=action.ask, templates=templates, labels=action.labels
        )
        await self._create(PROVISIONING_REQUEST, body, workload)

    async def _template(self, key: Key) -> PodTemplate:
        cached: PodTemplate | None = self._caches[POD_TEMPLATE].get(key)
        return cached or await self._client.get(POD_TEMPLATE, key)

    async def _create(self, resource: Resource[T], body: dict[str, Any], workload: Workload) -> None:
        key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
        try:
            created = await self._client.create(resource, body, namespace=key.namespace)
        except AlreadyExists:
            created = await self._client.get(resource, key)
            self._check_owner(resource, created, body, workload)
        self._remember(resource, created)

    def _check_owner(self, resource: Resource[T], found: T, body: dict[str, Any], workload: Workload) -> None:
        uids = {owner.uid for owner in found.metadata.owner_references}
        if isinstance(found, PodTemplate) and is_ours(found, workload):
            return
        if uids == {owner["uid"] for owner in body["metadata"]["ownerReferences"]}:
            return
        raise NameTaken(
            f"{resource.kind} {found.key} has our name for Workload {workload.key} and another owner. "
            f"Fix: delete it, and see who may create such objects in namespace {found.metadata.namespace}"
        )

    def _remember(self, resource: Resource[T], obj: T) -> T:
        """Into the cache at once: the next decision must not be made from before this write."""
        self._caches[resource].store.put(obj)
        return obj

    def _tell(self, workload: Workload, action: Tell) -> None:
        abouts = [Reference.to(WORKLOAD, workload), *_owners(workload)]
        for about in abouts:
            self._events.event(about, action.kind, reason=action.reason, action=ACTION, note=action.message)


def _named(obj: Object, body: dict[str, Any]) -> dict[str, Any]:
    """With name and namespace in the metadata, which an apply has to repeat."""
    meta = {"name": obj.metadata.name, "namespace": obj.metadata.namespace, **body["metadata"]}
    return {**body, "metadata": meta}


def _owners(workload: Workload) -> list[Reference]:
    """The job: users look there, not at the Workload."""
    return [
        Reference(owner.api_version, owner.kind, workload.metadata.namespace, owner.name, owner.uid)
        for owner in workload.metadata.owner_references
        if owner.controller
    ]
