"""Carries out actions: each is one call to the API.

Safe with a stale decision: every write to the Workload carries the resourceVersion that the decision was made
from, every deletion the uid, and before anything is deleted the Workload is read live; before anything is
created too, where another replica may have written what the cache does not show. A create that finds its name
taken accepts the object only if the owner's uid matches. decide.py decides what to do.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final

import msgspec

from muster.controller.gangs.actions import (
    CreatePlaceholders,
    CreateRequest,
    CreateSet,
    CreateTemplates,
    Delete,
    EmitEvent,
    HoldNode,
)
from muster.controller.gangs.create_errors import is_rejection
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.objects import Belonging
from muster.controller.gangs.owner import emit_event
from muster.controller.gangs.requests import Requests, StaleDecision
from muster.controller.gangs.retry import RetryHistory, to_annotations
from muster.controller.kube.client import Client, Selection
from muster.controller.kube.errors import ApiError, Conflict, NotFound
from muster.controller.kube.parallel import side_by_side
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import (
    Action,
    Deactivate,
    PatchAnnotations,
    Reactivate,
    RecordRunningPods,
    RemoveClaims,
    SetCheckState,
    SetFlavorAffinity,
    State,
)
from muster.controller.kueue.clusters import (
    ELASTIC_POD,
    WHOLE_RAY_CLUSTER,
    ElasticPod,
    Json,
    WholeRayCluster,
    consumed_requests,
    pods_with_old_claim,
    running_pods,
    without_claims,
)
from muster.controller.kueue.flavor_fallback import pod_sets
from muster.controller.kueue.identity import WORKLOADS
from muster.controller.kueue.objects import WHOLE_WORKLOAD, WORKLOAD, Flavors, Workload
from muster.controller.kueue.pending_workloads import PendingWorkloads
from muster.controller.kueue.slices import record, replaces
from muster.controller.kueue.snapshot import claims_of
from muster.controller.kueue.templates import merged, trial_pods
from muster.controller.runtime.events import EventRecorder
from muster.model.names import RAY_CLUSTER_LABEL


class Executor:
    """Carries out the actions of one decision, in order. What it writes goes into the caches at once."""

    def __init__(
        self,
        client: Client,
        *,
        events: EventRecorder,
        requests: Requests,
        pending: PendingWorkloads,
        slice_of: Callable[[Key], str],
        is_current: Callable[[], bool],
        clock: Callable[[], datetime],
    ) -> None:
        """`is_current`: whether the cache of Workloads shows what every other replica has written."""
        self._client, self._events, self._requests, self._clock = client, events, requests, clock
        self._pending, self._slice_of, self._is_current = pending, slice_of, is_current
        self._clusters = Clusters(client)

    async def run(
        self, actions: tuple[Action, ...], *, workload: Workload, check: str, flavors: Flavors
    ) -> None:
        if needs_confirmation(actions, workload, is_current=self._is_current()):
            await self._confirm(workload, actions)
        for kind, same in groupby(actions, key=type):
            if kind in _INDEPENDENT:
                await side_by_side(map(self._write, same))
            else:
                for action in same:
                    workload = await self._run(action, workload, check=check, flavors=flavors)

    async def _write(self, action: Action) -> None:
        """One of many alike, in any order."""
        match action:
            case HoldNode():
                await self._requests.hold_node(action)
            case Delete():
                await self._requests.delete(action)

    async def _run(self, action: Action, workload: Workload, *, check: str, flavors: Flavors) -> Workload:
        """The Workload as it is after the action."""
        match action:
            case SetCheckState():
                workload = await self._set_check_state(workload, check, action)
            case Deactivate(history=history):
                workload = await self._patch(workload, history, active=False)
            case Reactivate(history=history):
                workload = await self._patch(workload, history, active=True)
            case SetFlavorAffinity():
                workload = await self._set_flavor_affinity(workload, action)
            case PatchAnnotations(history=history):
                workload = await self._patch(workload, history, active=None)
            case CreateTemplates():
                await self._create_templates(workload, action, flavors)
            case CreateSet():
                await self._requests.create_set(WORKLOADS.of(workload), action)
            case CreateRequest():
                await self._requests.create_request(WORKLOADS.of(workload), action)
            case CreatePlaceholders():
                await self._requests.hold(WORKLOADS.of(workload), action)
            case RemoveClaims(history=history):
                is_clean = await self._clusters.remove_claims(workload, action, check=check)
                if history is not None and is_clean:
                    workload = await self._patch(workload, history, active=None)
            case RecordRunningPods():
                workload = await self._record_running_pods(workload, action)
            case EmitEvent():
                emit_event(self._events, WORKLOADS.of(workload), action)
        return workload

    async def release_orphans(self, items: Sequence[Belonging], *, of: Key) -> None:
        """Delete what was made for Workloads that no longer exist."""
        await self._requests.release_orphans(items, of=of, owners=WORKLOADS)

    async def _confirm(self, workload: Workload, actions: Sequence[Action]) -> None:
        """A live read before anything is deleted: a cache may lag behind a new reservation. Also before
        anything is requested, where another replica may have ended this attempt: its request is gone from the
        server then, and its name free.
        """
        try:
            live = await self._client.get(WORKLOAD, workload.key)
        except NotFound:
            if any(isinstance(each, _CREATES) for each in actions):
                raise StaleDecision(f"Workload {workload.key} is gone") from None
            return
        if live.metadata.resource_version != workload.metadata.resource_version:
            self._requests.remember(WORKLOAD, live)
            raise StaleDecision(f"Workload {workload.key} has changed")

    async def _set_check_state(self, workload: Workload, check: str, action: SetCheckState) -> Workload:
        """The whole check state, so that nothing of an earlier one stays; by force: Kueue applies it too. Of
        one that is Pending the time is that of its words.
        """
        before = workload.check_state(check)
        is_same = before is not None and before.state == action.state != State.PENDING
        kept = before.last_transition_time if before and is_same else None
        check_state = {
            "name": check,
            "state": action.state.value,
            "message": action.message[:32_000],
            "lastTransitionTime": (kept or self._clock()).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "podSetUpdates": [msgspec.to_builtins(update) for update in action.updates],
        }
        try:
            return await self._apply(workload, "status", {"admissionChecks": [check_state]})
        except ApiError as error:
            if not action.attempt or isinstance(error, NotFound) or not is_rejection(error):
                raise
            what = f"AdmissionCheck {check} of Workload {workload.key}"
            raise self._requests.refusal(what, error, attempt=action.attempt) or error from None

    async def _set_flavor_affinity(self, workload: Workload, action: SetFlavorAffinity) -> Workload:
        wanted = list(pod_sets(workload, action.pools, action.policy))
        return await self._apply(workload, "spec", {"podSets": wanted} if wanted else {})

    async def _apply(self, workload: Workload, part: str, body: dict[str, Any]) -> Workload:
        """`part`: the status, or the spec."""
        meta = workload.metadata
        named = {"name": meta.name, "namespace": meta.namespace, **_version(workload)}
        applied = await self._client.apply(
            WORKLOAD,
            workload.key,
            {"metadata": named, part: body},
            subresource="status" if part == "status" else "",
            force=True,
        )
        return self._requests.remember(WORKLOAD, applied)

    async def _patch(self, workload: Workload, history: RetryHistory, *, active: bool | None) -> Workload:
        return await self._annotate(workload, to_annotations(history), active=active)

    async def _annotate(
        self, workload: Workload, annotations: Mapping[str, str | None], *, active: bool | None
    ) -> Workload:
        body: dict[str, Any] = {"metadata": {**_version(workload), "annotations": dict(annotations)}}
        if active is not None:
            body["spec"] = {"active": active}
        return self._requests.remember(WORKLOAD, await self._client.merge_patch(WORKLOAD, workload.key, body))

    async def _record_running_pods(self, workload: Workload, action: RecordRunningPods) -> Workload:
        """Where pods cannot be counted, all that the slice before has runs."""
        space, before = workload.metadata.namespace, replaces(workload)
        counted = await self._clusters.running(workload)
        if counted is None:
            slices = {before.name} if before else set()
            noted = record(workload, action.most or {}, slices=slices, most=None)
        else:
            slices = {self._slice_of(Key(space, name)) for name in counted[1]} - {""}
            noted = record(workload, counted[0], slices=slices, most=action.most)
        return await self._annotate(workload, noted, active=None)

    async def _create_templates(self, workload: Workload, action: CreateTemplates, flavors: Flavors) -> None:
        whole = self._pending.whole(workload) or await self._client.get(WHOLE_WORKLOAD, workload.key)
        if whole.metadata.uid != workload.metadata.uid:
            raise StaleDecision(f"Workload {workload.key} is another one of that name")
        templates = {pod_set.name: pod_set.template for pod_set in whole.spec.pod_sets}
        if action.tries_pods:
            pods_to_try = trial_pods(workload, templates, flavors, request=action.request)
            attempt = action.labels[ATTEMPT]
            await side_by_side(
                self._requests.try_pod(pod, pod_set=name, attempt=attempt) for name, pod in pods_to_try
            )
        pods = {
            demand.pod_set: merged(templates[demand.pod_set], demand, flavors)
            for demand in action.spec.demands
        }
        await self._requests.create_templates(WORKLOADS.of(workload), action, pods)


_INDEPENDENT: Final = (HoldNode, Delete)
"""Writes of which a gang has one for each of its pods, and which do not depend on each other."""
CONDITIONAL: Final = (SetCheckState, Deactivate, Reactivate, SetFlavorAffinity, PatchAnnotations)
"""Writes that carry the resourceVersion of the Workload: one that succeeds proves that the cache is right."""


_CREATES: Final = (CreateTemplates, CreateRequest, CreatePlaceholders, HoldNode)


def needs_confirmation(actions: Sequence[Action], workload: Workload, *, is_current: bool) -> bool:
    """Whether something is deleted, or by a cache that may lag created, before a write of the Workload proves
    the decision right. Finished is never taken back: a cache that shows it is right, however old it is.
    """
    doubtful = (Delete,) if is_current else (Delete, *_CREATES)
    first = next((each for each in actions if isinstance(each, (*CONDITIONAL, *doubtful))), None)
    return isinstance(first, doubtful) and not workload.status.holds("Finished")


def _version(workload: Workload) -> dict[str, str]:
    """Makes a write a Conflict where the Workload is not what the decision was made from."""
    return {"uid": workload.metadata.uid, "resourceVersion": workload.metadata.resource_version}


# Writes to the Ray cluster of an elastic gang: its templates and its gated pods.
#
# Safe with a stale read: a cluster is written with the resourceVersion that was read, so that concurrent
# changes of the autoscaler to the same lists are kept, and a pod is deleted by uid and version, so never one
# that has passed. clusters.py decides what to remove.


_LABELS: Final = {WHOLE_RAY_CLUSTER.kind: RAY_CLUSTER_LABEL, "Job": "batch.kubernetes.io/job-name"}
"""Of the pods of a job, by its kind: the label that holds its name."""


class Clusters:
    """Looks live, and writes."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def remove_claims(self, workload: Workload, action: RemoveClaims, *, check: str) -> bool:
        """Whether the cluster is started, clean, and every pod of the slice may be scheduled."""
        key = _cluster_of(workload)
        if key is None:
            return True
        cluster = await self._client.get(WHOLE_RAY_CLUSTER, key)
        if not cluster.is_started:
            return False
        if (spec := without_claims(cluster.spec, action.selectors)) is not None:
            await self._write(cluster, spec)
        pods = await self._labelled(key.namespace, f"{RAY_CLUSTER_LABEL}={key.name}")
        claims = {name: claim.request for name, claim in claims_of(workload.check_state(check)).items()}
        stale = pods_with_old_claim(pods, claims)
        for pod in stale:
            await self._recycle(pod)
        free = running_pods(pods)
        return not stale and all(free.get(each.name, 0) >= each.count for each in workload.spec.pod_sets)

    async def running(self, workload: Workload) -> tuple[Mapping[str, int], frozenset[str]] | None:
        """Pods that may be scheduled, by PodSet, and the requests that they consume. None for a kind of job
        whose pods are not known.
        """
        owners = (each for each in workload.metadata.owner_references if each.controller)
        labels = [f"{_LABELS[each.kind]}={each.name}" for each in owners if each.kind in _LABELS]
        if not labels:
            return None
        pods = await self._labelled(workload.metadata.namespace, labels[0])
        return running_pods(pods), consumed_requests(pods)

    async def _write(self, cluster: WholeRayCluster, spec: Json) -> None:
        version = {"resourceVersion": cluster.metadata.resource_version}
        await self._client.merge_patch(WHOLE_RAY_CLUSTER, cluster.key, {"metadata": version, "spec": spec})

    async def _labelled(self, namespace: str, labels: str) -> tuple[ElasticPod, ...]:
        return (await self._client.list(ELASTIC_POD, Selection(namespace=namespace, labels=labels))).items

    async def _recycle(self, pod: ElasticPod) -> None:
        """KubeRay makes it again, without a claim."""
        meta = pod.metadata
        try:
            await self._client.delete(
                ELASTIC_POD, pod.key, uid=meta.uid, resource_version=meta.resource_version
            )
        except (NotFound, Conflict):
            return  # Gone, or changed: the next look sees it.


def _cluster_of(workload: Workload) -> Key | None:
    """Its RayCluster; None where another kind of job grows."""
    for owner in workload.metadata.owner_references:
        if owner.controller and owner.kind == WHOLE_RAY_CLUSTER.kind:
            return Key(workload.metadata.namespace, owner.name)
    return None
