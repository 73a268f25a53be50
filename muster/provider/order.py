"""In which waves objects are applied, and in which they go.

A wave starts when the one before has ended; inside a wave everything runs at once. Going is not simply
coming backwards: a team's namespace goes before its ClusterQueue, because Kueue keeps a ClusterQueue
(finalizer `kueue.x-k8s.io/resource-in-use`) until the workloads that hold its quota are gone, and those
live in the namespace.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from muster.provider.manifests import Ref

_LAST = "everything else"

# Kinds by name alone: the names are unique among the APIs that a Bundle meets, and an unknown kind is
# harmless.
_APPLY: tuple[tuple[str, ...], ...] = (
    ("Namespace",),
    ("CustomResourceDefinition",),
    ("ServiceAccount", "Role", "ClusterRole", "PriorityClass", "StorageClass", "RuntimeClass"),
    ("RoleBinding", "ClusterRoleBinding"),
    ("ConfigMap", "Secret", "ResourceQuota", "LimitRange", "NetworkPolicy", "PodDisruptionBudget"),
    ("Topology", "WorkloadPriorityClass", "ProvisioningRequestConfig", "GangPolicy"),
    ("ResourceFlavor", "AdmissionCheck"),
    ("Cohort",),
    ("ClusterQueue",),
    ("LocalQueue",),
    (_LAST,),
    # Rules that judge other requests come last, so that they never block their own bundle.
    (
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "APIService",
    ),
)
_DELETE: tuple[tuple[str, ...], ...] = (
    _APPLY[-1],
    (_LAST,),
    ("LocalQueue",),
    ("Namespace",),
    ("ClusterQueue",),
    ("Cohort",),
    ("ResourceFlavor", "AdmissionCheck"),
    ("Topology", "WorkloadPriorityClass", "ProvisioningRequestConfig", "GangPolicy"),
    *reversed(_APPLY[2:5]),
    ("CustomResourceDefinition",),
)
IN_USE = "kueue.x-k8s.io/resource-in-use"
# Kueue holds these with a finalizer for as long as a ClusterQueue names them, in whatever bundle that is.
SHARED = frozenset({"Topology", "ResourceFlavor", "AdmissionCheck", "Cohort"})

_APPLY_RANK = {kind: rank for rank, wave in enumerate(_APPLY) for kind in wave}
_DELETE_RANK = {kind: rank for rank, wave in enumerate(_DELETE) for kind in wave}

T = TypeVar("T")


def apply_waves(things: Iterable[T], ref: Callable[[T], Ref]) -> list[list[T]]:
    return _waves(things, ref, _APPLY_RANK)


def delete_waves(refs: Iterable[Ref]) -> list[list[Ref]]:
    return _waves(refs, lambda ref: ref, _DELETE_RANK)


def _waves(things: Iterable[T], ref: Callable[[T], Ref], ranks: dict[str, int]) -> list[list[T]]:
    waves: dict[int, list[T]] = {}
    for thing in things:
        waves.setdefault(ranks.get(ref(thing).kind, ranks[_LAST]), []).append(thing)
    return [waves[rank] for rank in sorted(waves)]
