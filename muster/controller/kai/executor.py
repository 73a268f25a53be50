"""Carries out actions: each is one call to the API.

Safe with a stale decision: every write to a pod carries its uid, and removing a gate twice equals removing it
once. Requests are muster.controller.gangs'; decide.py decides what to do.
"""

from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import groupby
from typing import Any, Final

import msgspec

from muster.controller.gangs.actions import (
    CreateRequest,
    CreateSet,
    CreateTemplates,
    Delete,
    EmitEvent,
    HoldNode,
)
from muster.controller.gangs.create_errors import GateKept, is_rejection
from muster.controller.gangs.identity import ATTEMPT, template_name
from muster.controller.gangs.objects import POD_TEMPLATE, PROVISIONING_REQUEST
from muster.controller.gangs.owner import emit_event
from muster.controller.gangs.placeholder_sets import is_asked_by_pods
from muster.controller.gangs.placeholders import quantity
from muster.controller.gangs.reasons import loss
from muster.controller.gangs.requests import Requests
from muster.controller.gangs.retry import to_annotations
from muster.controller.gangs.templates import Json, fill_requests
from muster.controller.kai.actions import (
    Action,
    DeleteRunning,
    DeleteUnbound,
    PatchAnnotations,
    PatchCluster,
    Ungate,
)
from muster.controller.kai.labels import STATUS, owner_of, owners_of
from muster.controller.kai.objects import GATED_POD, WHOLE_POD, GangOwner, GatedPod, WholePod
from muster.controller.kai.pod_groups import PodGroupDemand, missing_tolerations
from muster.controller.kai.preemption import HOSTNAME
from muster.controller.kube.client import Client
from muster.controller.kube.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound
from muster.controller.kube.parallel import side_by_side
from muster.controller.kube.resource import Key
from muster.controller.runtime.events import EventRecorder
from muster.model.names import GANG_GATE, UNDISTURBED
from muster.model.pods import Amounts


class Executor:
    """Carries out the actions of one decision, in order. What it writes goes into the caches at once."""

    def __init__(self, client: Client, *, events: EventRecorder, requests: Requests) -> None:
        self._client, self._events, self._requests = client, events, requests

    async def run(
        self, actions: Sequence[Action], *, cluster: GangOwner, pod_group_demands: Sequence[PodGroupDemand]
    ) -> None:
        """`pod_group_demands`: what the templates that are to be created are made of.

        A note that the gang's object or its pod cannot take, as where those of hundreds of its groups are too
        long together or a webhook refuses pods of its kind, is raised at the end: what the gang has is given
        back all the same.
        """
        refused: ApiError | None = None
        for kind, group in groupby(actions, key=type):
            listed = tuple(group)
            calls = (self._one(action, cluster, pod_group_demands) for action in listed)
            if kind is Ungate:
                await self._ungate_all([each for each in listed if isinstance(each, Ungate)])
            elif kind in _INDEPENDENT:
                await side_by_side(calls)
            else:
                for call in calls:
                    try:
                        await call
                    except (BadRequest, Forbidden, Invalid) as error:
                        if kind not in (PatchCluster, PatchAnnotations):
                            raise
                        refused = error
        if refused:
            raise refused

    async def _one(
        self, action: Action, cluster: GangOwner, pod_group_demands: Sequence[PodGroupDemand]
    ) -> None:
        match action:
            case CreateTemplates():
                await self._create_templates(cluster, action, pod_group_demands)
            case CreateSet():
                await self._requests.create_set(owner_of(cluster), action)
            case HoldNode():
                await self._requests.hold_node(action)
            case CreateRequest():
                await self._requests.create_request(owner_of(cluster), action)
            case Delete():
                await self._requests.delete(action)
            case PatchAnnotations():
                await self._patch_annotations(action)
            case PatchCluster():
                await self._patch_cluster(cluster, action)
            case DeleteUnbound():
                await self._delete_unbound(action)
            case DeleteRunning(pod=pod):
                with suppress(NotFound):
                    await self._client.delete(GATED_POD, pod.key, uid=pod.metadata.uid)
            case EmitEvent():
                emit_event(self._events, owner_of(cluster), action)

    async def _ungate_all(self, ungates: Sequence[Ungate]) -> None:
        """The last one alone and at the end: the batch is known by it."""
        *others, leader = ungates
        await side_by_side(map(self._ungate, others))
        await self._ungate(leader)

    async def _ungate(self, action: Ungate) -> None:
        """Gates can only be removed, and with them gone the selector is fixed: so all of it is one patch."""
        pod = action.pod
        kept = [{"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != GANG_GATE]
        body: dict[str, Any] = {
            "metadata": {"uid": pod.metadata.uid, "annotations": dict(action.annotations)},
            "spec": {"schedulingGates": kept},
        }
        if action.node_selector:
            body["spec"]["nodeSelector"] = dict(action.node_selector)
        if action.tolerations or action.hosts:
            try:
                live = await self._client.get(WHOLE_POD, pod.key)
            except NotFound:
                return
            if action.tolerations:
                body["spec"]["tolerations"] = _tolerations(live, action)
            if action.hosts:
                body["spec"]["affinity"] = {"nodeAffinity": _bounded(live, action.hosts)}
                body["metadata"]["annotations"] |= {
                    key: value
                    for key, value in UNDISTURBED.items()
                    if action.is_undisturbed and key not in live.metadata.annotations
                }
        try:
            await self._patch(pod, body)
        except ApiError as error:
            attempt = action.annotations.get(ATTEMPT, "")
            if not is_rejection(error):
                raise
            what = f"gate of pod {pod.key}"
            raise self._requests.refusal(what, error, attempt=attempt, as_a=GateKept) or error from None

    async def _patch_annotations(self, action: PatchAnnotations) -> None:
        annotations = {**to_annotations(action.history), STATUS: action.status or None}
        await self._patch(
            action.pod, {"metadata": {"uid": action.pod.metadata.uid, "annotations": annotations}}
        )

    async def _patch_cluster(self, cluster: GangOwner, action: PatchCluster) -> None:
        annotations = dict(to_annotations(action.history, part=action.part))
        body = {"metadata": {"uid": cluster.metadata.uid, "annotations": annotations}}
        resource, meta = owners_of(cluster).resource, cluster.metadata
        try:
            patched = await self._client.merge_patch(resource, Key(meta.namespace, meta.name), body)
        except NotFound:
            return
        self._requests.remember(resource, patched)

    async def _patch(self, pod: GatedPod, body: dict[str, Any]) -> None:
        try:
            patched = await self._client.merge_patch(GATED_POD, pod.key, body)
        except NotFound:
            return  # The pod is gone: its deletion brings the cluster back.
        self._requests.remember(GATED_POD, patched)

    async def _delete_unbound(self, action: DeleteUnbound) -> None:
        """A live read first: a cache of requests that lags must not cost a pod."""
        pod = action.pod
        try:
            live = await self._client.get(GATED_POD, pod.key)
            if live.spec.node_name or live.metadata.uid != pod.metadata.uid:
                return
            if action.request and await self._is_usable(Key(pod.metadata.namespace, action.request)):
                return
            await self._client.delete(GATED_POD, pod.key, uid=pod.metadata.uid)
        except NotFound:
            return

    async def _is_usable(self, request: Key) -> bool:
        try:
            found = await self._client.get(PROVISIONING_REQUEST, request)
        except NotFound:
            return await self._is_asked_by_pods(request)
        return loss(found, admitted=False) is None

    async def _is_asked_by_pods(self, request: Key) -> bool:
        """A placeholder set is there while its templates are."""
        try:
            first = Key(request.namespace, template_name(request.name, 0))
            return is_asked_by_pods(await self._client.get(POD_TEMPLATE, first))
        except NotFound:
            return False

    async def _create_templates(
        self, cluster: GangOwner, action: CreateTemplates, pod_group_demands: Sequence[PodGroupDemand]
    ) -> None:
        wanted = {demand.pod_set: demand for demand in action.spec.demands}
        templates = {}
        for group_demand in pod_group_demands:
            if wanted.get(group_demand.demand.pod_set) == group_demand.demand:
                whole = await self._client.get(WHOLE_POD, group_demand.pods[0].key)
                templates[group_demand.demand.pod_set] = template_of(whole, group_demand)
        await self._requests.create_templates(owner_of(cluster), action, templates)


def _tolerations(live: WholePod, action: Ungate) -> list[dict[str, Any]]:
    """The whole list, which a patch replaces: the pod's own as they are (the cache keeps not all of a
    toleration), and what is to be added.
    """
    own: list[dict[str, Any]] = live.spec.get("tolerations", [])
    added = [msgspec.to_builtins(each) for each in action.tolerations]
    return [*own, *(each for each in added if each not in own)]


def _bounded(live: WholePod, hosts: Sequence[str]) -> dict[str, Any]:
    """What the pod demands of nodes, on these alone. Terms are alternatives, so each gets it; of a gated pod
    the API server lets nothing else be changed.
    """
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = live.spec.get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get(required, {}).get("nodeSelectorTerms", []) or [{}]
    here = {"key": HOSTNAME, "operator": "In", "values": list(hosts)}
    bounded = [{**term, "matchExpressions": [*term.get("matchExpressions", []), here]} for term in terms]
    return {required: {"nodeSelectorTerms": bounded}}


_INDEPENDENT: Final = (HoldNode, Delete)
"""Writes of which a gang has one for each of its pods, and which do not depend on each other."""


# A pod as nodes are requested for it.
#
# Copies from a gated pod into the PodTemplate of a request what the scheduler looks at. Pods that share GPUs
# become one pod of whole GPUs. Ownership is muster.controller.gangs'.


# What belongs to one pod of many, or that a template may not carry beside its class.
_OWN: Final = ("nodeName", "schedulingGates", "hostname", "subdomain", "priority", "preemptionPolicy")


def template_of(pod: WholePod, group_demand: PodGroupDemand) -> Json:
    """The template of equal pods, made from one of them."""
    spec: Json = {key: deepcopy(value) for key, value in pod.spec.items() if key not in _OWN}
    spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **group_demand.demand.needs.node_selector}
    added = missing_tolerations(group_demand.demand.flavor, group_demand.pods[0].spec.tolerations)
    spec["tolerations"] = [*spec.get("tolerations", []), *map(msgspec.to_builtins, added)]
    if group_demand.is_packed:
        spec.pop("initContainers", None)
        spec["containers"] = [_packed(spec["containers"][0], group_demand.demand.needs.amounts)]
    fill_requests(spec)
    own = {key: value for key, value in pod.metadata.annotations.items() if key in UNDISTURBED}
    return {"metadata": {"labels": dict(pod.metadata.labels), "annotations": own}, "spec": spec}


def _packed(container: Json, amounts: Amounts) -> Json:
    """One container that requests all: extended resources need a limit that equals the request."""
    written = {name: quantity(name, amount) for name, amount in amounts.items() if amount}
    limits: dict[str, Any] = {name: text for name, text in written.items() if "/" in name}
    return {**container, "resources": {"requests": written, "limits": limits}}
