"""Writes to the Ray cluster of an elastic gang: its templates and its gated pods.

Safe with a stale read: a cluster is written with the resourceVersion that was read, so that concurrent
changes of the autoscaler to the same lists are kept, and a pod is deleted by uid and version, so never one
that has passed. clusters.py decides what to remove.
"""

from collections.abc import Mapping
from typing import Final

from muster.controller.kube.client import Client, Selection
from muster.controller.kube.errors import Conflict, NotFound
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import RemoveClaims
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
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.snapshot import claims_of
from muster.model.names import RAY_CLUSTER_LABEL

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
