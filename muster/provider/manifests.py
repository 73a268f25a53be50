"""The objects of a Bundle with their identities, or a list of problems.

Nothing here asks a cluster; whether a kind exists and is namespaced is `api.py`'s business.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from muster.manifests import documents


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """An object's address. `namespace` is empty for a cluster-scoped object."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The same object in two versions of its API has one identity."""
        return self.group, self.kind, self.namespace, self.name

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where}"

    def encode(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.api_version} {self.kind} {where}"

    @classmethod
    def decode(cls, text: str) -> "Ref":
        api_version, kind, where = text.split(" ", 2)
        namespace, _, name = where.rpartition("/")
        return cls(api_version, kind, namespace, name)


@dataclass(frozen=True, slots=True)
class Item:
    """One object of a Bundle and the key of the text that it came from."""

    key: str
    ref: Ref
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the text under one key, and how to put it right."""

    key: str
    message: str


class ManifestError(Exception):
    """A Bundle that cannot be read; `problems` has the reasons, key by key."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"manifests[{problem.key!r}]: {problem.message}" for problem in problems))
        self.problems = problems


def read(manifests: Mapping[str, str]) -> list[Item]:
    """All objects of a Bundle. Raises ManifestError with every problem, not only the first."""
    items: list[Item] = []
    problems: list[Problem] = []
    seen: dict[tuple[str, str, str, str], str] = {}
    for key, text in manifests.items():
        try:
            bodies = documents(text)
        except ValueError as error:
            problems.append(Problem(key, str(error)))
            continue
        for position, body in enumerate(bodies):
            fault = _fault(body)
            if fault:
                problems.append(Problem(key, f"object {position}: {fault}"))
                continue
            ref = ref_of(body)
            if ref.identity in seen:
                problems.append(
                    Problem(key, f"{ref} is under {seen[ref.identity]!r} too. Fix: keep it in one place")
                )
                continue
            seen[ref.identity] = key
            items.append(Item(key, ref, body))
    if problems:
        raise ManifestError(problems)
    return items


def ref_of(body: Mapping[str, Any]) -> Ref:
    metadata = body["metadata"]
    return Ref(body["apiVersion"], body["kind"], metadata.get("namespace") or "", metadata["name"])


def same(one: str, other: str) -> bool:
    """Whether two texts hold the same objects, however they are written."""
    if one == other:
        return True
    try:
        return _by_identity(one) == _by_identity(other)
    except (ValueError, KeyError):
        return False


def _by_identity(text: str) -> dict[Ref, dict[str, Any]]:
    return {ref_of(body): body for body in documents(text)}


def _fault(body: Mapping[str, Any]) -> str | None:
    metadata = body.get("metadata")
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str) or not body[field]:
            return f"{field} is missing; every object needs apiVersion, kind and metadata.name"
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return f"{body['kind']} has no metadata.name (generateName cannot be applied twice); give it a name"
    if "status" in body:
        return f"{body['kind']} {metadata['name']} carries a status; leave it to the cluster"
    return None


# In which waves objects are applied, and in which they go.
# A wave starts when the one before has ended; inside a wave everything runs at once. Going is not simply
# coming backwards: a team's namespace goes before its ClusterQueue, because Kueue keeps a ClusterQueue
# (finalizer `kueue.x-k8s.io/resource-in-use`) until the workloads that hold its quota are gone, and those
# live in the namespace.

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
