"""Reads a snapshot from a cluster: three lists with Kueue, five with KAI. Nothing is written."""

from datetime import UTC, datetime
from typing import Final

from muster.live.cluster.api import Api
from muster.live.snapshot import kai, kueue
from muster.live.snapshot.pod_groups import Node, PodGroup
from muster.live.snapshot.snapshot import Snapshot
from muster.live.web import WebError
from muster.model import names
from muster.model.stack import Scheduler

_KUEUE: Final = f"/apis/{names.KUEUE_API_VERSION}"
_KAI: Final = "/apis/scheduling.run.ai/v2"
_FORBIDDEN: Final = 403


def fetch_snapshot(api: Api, *, now: datetime | None = None) -> Snapshot:
    """The queues of the cluster and their work. WebError when it has no queues or does not respond."""
    taken = (now or datetime.now(UTC)).replace(microsecond=0)
    try:
        queues = api.list_all(f"{_KUEUE}/clusterqueues", kueue.to_queue)
    except WebError as error:
        if error.status != 404:
            raise
        return _fetch_kai(api, taken)
    local_queues = api.list_all(f"{_KUEUE}/localqueues", kueue.to_local_queue)
    workloads = api.list_all(f"{_KUEUE}/workloads", kueue.to_workload)
    return Snapshot(
        taken=taken,
        scheduler=Scheduler.KUEUE,
        queues=tuple(sorted(queues, key=lambda each: each.name)),
        local_queues=tuple(sorted(local_queues, key=lambda each: (each.namespace, each.name))),
        workloads=tuple(sorted(workloads, key=lambda each: (each.namespace, each.name))),
    )


def _fetch_kai(api: Api, taken: datetime) -> Snapshot:
    try:
        queues = api.list_all(f"{_KAI}/queues", kai.to_queue)
    except WebError as error:
        if error.status != 404:
            raise
        raise WebError(
            f"{api.web.base}: the cluster serves neither {names.KUEUE_API_VERSION} nor KAI's queues.",
            fix="use the context of a cluster that Muster manages.",
            status=404,
        ) from None
    groups, nodes = _fetch_work(api)
    return Snapshot(
        taken=taken,
        scheduler=Scheduler.KAI,
        queues=tuple(sorted(queues, key=lambda each: each.name)),
        pod_groups=groups,
        nodes=nodes,
    )


def _fetch_work(api: Api) -> tuple[tuple[PodGroup, ...] | None, tuple[Node, ...] | None]:
    """The pod groups with their pods, and the nodes. None without the right to list one of the kinds."""
    try:
        groups = api.list_all("/apis/scheduling.run.ai/v2alpha2/podgroups", kai.to_group)
        bindings = api.list_all("/apis/scheduling.run.ai/v1alpha2/bindrequests", kai.to_binding)
        pods = api.list_all("/api/v1/pods", kai.to_pod)
        nodes = api.list_all("/api/v1/nodes", kai.to_node)
    except WebError as error:
        if error.status != _FORBIDDEN:
            raise
        return None, None
    placed = kai.with_bindings(pods, dict(bindings))
    return kai.with_pods(groups, placed), kai.with_room(nodes, placed, groups)
