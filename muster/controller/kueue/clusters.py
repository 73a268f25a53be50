"""The RayCluster of an elastic gang: its pod templates must hold no claim.

When Kueue starts a job it writes the claims of our check into the job's pod templates, where they stay. Pods
of a later scale-up would be created with the claim of the first request: Kueue keeps such pods gated forever,
and after an eviction it cannot start the job again, because the next claim contradicts the old one
(pkg/controller/elasticjobs, pkg/podset of Kueue 0.19.2). With the templates cleaned, the claims of each
scale-up reach its pods from the Workload, when Kueue removes their gate. Gated pods that carry an old claim
are deleted and created again. Pure: which claims and pods those are, and how many pods may be scheduled.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import field

from muster.controller.gangs.objects import PodStatus
from muster.controller.kube.resource import Object, Partial, Resource
from muster.model.names import CLAIM_ANNOTATIONS, CONSUME_ANNOTATION, ELASTIC_JOB, POD_SET_LABEL

Json = dict[str, Any]


class WholeRayCluster(Object, frozen=True):
    """As it lies in the cluster, with every field: a list is written back whole."""

    spec: Json = field(default_factory=dict)

    @property
    def is_started(self) -> bool:
        return self.spec.get("suspend") is False


class Gate(Partial, frozen=True):
    name: str = ""


class ElasticSpec(Partial, frozen=True):
    scheduling_gates: tuple[Gate, ...] = ()


class ElasticPod(Object, frozen=True):
    """A pod of an elastic gang, as far as its gate goes."""

    spec: ElasticSpec = ElasticSpec()
    status: PodStatus = PodStatus()

    @property
    def is_gated(self) -> bool:
        return any(gate.name == ELASTIC_JOB for gate in self.spec.scheduling_gates)

    @property
    def is_free(self) -> bool:
        """It may be scheduled or has been."""
        return not self.is_gated and not self.is_finished

    @property
    def is_finished(self) -> bool:
        return self.status.has_ended or self.metadata.deletion_timestamp is not None


ELASTIC_POD: Final = Resource("", "v1", "pods", "Pod", True, ElasticPod)
WHOLE_RAY_CLUSTER: Final = Resource("ray.io", "v1", "rayclusters", "RayCluster", True, WholeRayCluster)


def without_claims(spec: Mapping[str, Any], selectors: Iterable[str]) -> Json | None:
    """The merge patch of a spec whose templates carry claims; None where none does. `selectors`: the node
    labels that pin pods to a lease.
    """
    pins = tuple(selectors)
    head = spec.get("headGroupSpec") or {}
    groups = spec.get("workerGroupSpecs") or []
    cleaned = [{**group, "template": _cleaned(group.get("template") or {}, pins)} for group in groups]
    patch: Json = {}
    if cleaned != groups:
        patch["workerGroupSpecs"] = cleaned
    template = head.get("template") or {}
    if (clean := _cleaned(template, pins)) != template:
        patch["headGroupSpec"] = {"template": _removals(template, clean)}
    return patch or None


def running_pods(pods: Iterable[ElasticPod]) -> Mapping[str, int]:
    """How many pods of each PodSet may be scheduled or have been."""
    return Counter(pod.metadata.labels.get(POD_SET_LABEL, "") for pod in pods if pod.is_free)


def consumed_requests(pods: Iterable[ElasticPod]) -> frozenset[str]:
    """What those pods consume."""
    found = (pod.metadata.annotations.get(CONSUME_ANNOTATION, "") for pod in pods if pod.is_free)
    return frozenset(name for name in found if name)


def pods_with_old_claim(pods: Iterable[ElasticPod], claims: Mapping[str, str]) -> list[ElasticPod]:
    """Pods behind the gate with a claim that is not the one which their PodSet has now (`claims`: requests by
    PodSet): Kueue leaves them there forever.
    """
    return [
        pod
        for pod in pods
        if pod.is_gated
        and not pod.is_finished
        and (claim := pod.metadata.annotations.get(CONSUME_ANNOTATION))
        and claim != claims.get(pod.metadata.labels.get(POD_SET_LABEL, ""))
    ]


def _cleaned(template: Json, pins: tuple[str, ...]) -> Json:
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    found = dict(template)
    if any(key in (meta.get("annotations") or {}) for key in CLAIM_ANNOTATIONS):
        found["metadata"] = {**meta, "annotations": _without(meta["annotations"], CLAIM_ANNOTATIONS)}
    if any(key in (spec.get("nodeSelector") or {}) for key in pins):
        found["spec"] = {**spec, "nodeSelector": _without(spec["nodeSelector"], pins)}
    return found


def _without(values: Mapping[str, Any], keys: Iterable[str]) -> Json:
    gone = frozenset(keys)
    return {key: value for key, value in values.items() if key not in gone}


def _removals(before: Json, after: Json) -> Json:
    """A merge patch removes a key by null: a map cannot be replaced in one."""
    patch: Json = {}
    for key in ("metadata", "spec"):
        name = "annotations" if key == "metadata" else "nodeSelector"
        had = (before.get(key) or {}).get(name) or {}
        has = (after.get(key) or {}).get(name) or {}
        if gone := had.keys() - has.keys():
            patch[key] = {name: dict.fromkeys(sorted(gone))}
    return patch
