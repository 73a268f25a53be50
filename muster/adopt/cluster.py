"""Reads the cluster: lists only, and only what a stack file can hold or has to fit.

RBAC: list of Kueue's kinds, nodes and Deployments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from muster.live.cluster.api import Api
from muster.live.fields import items
from muster.live.web import WebError
from muster.model import names
from muster.model.programs import PLACEMENTS, Program
from muster.render.manifest import Manifest

_KUEUE: Final = f"/apis/{names.KUEUE_API_VERSION}"
# Kind -> its plural. Those that a release may lack are read as empty.
_KINDS: Final[Mapping[str, str]] = {
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "Cohort": "cohorts",
    "ResourceFlavor": "resourceflavors",
    "Topology": "topologies",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "AdmissionCheck": "admissionchecks",
    "ProvisioningRequestConfig": "provisioningrequestconfigs",
    "MultiKueueConfig": "multikueueconfigs",
    "MultiKueueCluster": "multikueueclusters",
}
_PROGRAMS: Final = (Program.KUEUE, Program.KUBERAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCluster:
    """`objects`: Kueue's, by kind, each list by namespace and name. `programs`: the Deployments that run
    them.
    """

    objects: Mapping[str, tuple[Manifest, ...]]
    nodes: tuple[Manifest, ...] = ()
    programs: Mapping[Program, tuple[Manifest, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, kind: str) -> tuple[Manifest, ...]:
        return self.objects.get(kind, ())


def fetch_cluster(api: Api) -> LiveCluster:
    """WebError where the cluster does not answer, refuses a list, or serves no queues of this version."""
    return LiveCluster(
        objects=MappingProxyType({kind: _objects(api, kind, plural) for kind, plural in _KINDS.items()}),
        nodes=tuple(api.list_all("/api/v1/nodes", _whole)),
        programs=MappingProxyType({program: _deployments(api, program) for program in _PROGRAMS}),
    )


def _objects(api: Api, kind: str, plural: str) -> tuple[Manifest, ...]:
    try:
        found = api.list_all(f"{_KUEUE}/{plural}", _whole)
    except WebError as error:
        if error.status != 404:
            raise
        if kind != "ClusterQueue":
            return ()
        raise WebError(
            f"{api.web.base}: the cluster serves no {names.KUEUE_API_VERSION}, so it has no Kueue of 0.15 or "
            "newer. Fix: name the context of a cluster that runs Kueue, or upgrade it (docs/upgrades.md).",
            status=404,
        ) from None
    whole = [{**each, "apiVersion": names.KUEUE_API_VERSION, "kind": kind} for each in found]
    return tuple(sorted(whole, key=address))


def _whole(found: object) -> Manifest | None:
    return dict(found) if isinstance(found, Mapping) and isinstance(found.get("metadata"), Mapping) else None


def _deployments(api: Api, program: Program) -> tuple[Manifest, ...]:
    selector = quote(PLACEMENTS[program].selector)
    found = api.get(f"/apis/apps/v1/deployments?labelSelector={selector}")
    return tuple(dict(each) for each in items(found, "items"))


def address(body: Mapping[str, Any]) -> tuple[str, str]:
    """The namespace and name of an object."""
    metadata = body["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def title(body: Mapping[str, Any]) -> str:
    """`LocalQueue default/user-queue`."""
    namespace, name = address(body)
    return f"{body['kind']} {namespace}/{name}" if namespace else f"{body['kind']} {name}"
