"""The objects of a Bundle, and how the values of two objects compare: as quantities, by what we applied, and
by what they mean. Pure.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeVar

from muster.manifests import documents
from muster.model.quantities import parse_signed_quantity

# Whether two values are the same Kubernetes quantity ("1" and 1000m, "1Gi" and 1073741824).


def amount(value: object) -> Fraction | None:
    """The amount of a value, or None if it is not a quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return parse_signed_quantity(str(value))
    except ValueError:
        return None


def same_amount(one: object, other: object) -> bool:
    first = amount(one)
    return first is not None and first == amount(other)


# Compares a live object with what we applied. Pure.
#
# Only fields that we applied count: defaults that the server filled in, fields of other managers and the
# status are no drift. What the server's own record of our fields (`metadata.managedFields`) knows and
# the object does not show is how a list is merged: by keys (`k:{...}`), as a set (`v:...`) or whole.

_MISSING: Any = object()

# Under these a string is text, and "1.0" is not "1".
VERBATIM = frozenset(
    {"labels", "annotations", "data", "stringData", "matchLabels", "nodeSelector", "nodeLabels"}
)


def project(applied: Mapping[str, Any], live: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
    """The applied object with the live values in the applied fields; equal to `applied` when nothing drifted.

    A value that is only spelled differently keeps the spelling that was applied.
    """
    kept = {field: applied[field] for field in ("apiVersion", "kind") if field in applied}
    rest = {field: value for field, value in applied.items() if field not in kept}
    projected: dict[str, Any] = _project(rest, live, _owned(live, manager), verbatim=False)
    return kept | projected


def _owned(live: Mapping[str, Any], manager: str) -> Mapping[str, Any]:
    """The fields that we applied by the server's record, in the form of fieldsV1; empty without a record."""
    merged: dict[str, Any] = {}
    for entry in live.get("metadata", {}).get("managedFields", ()):
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and not entry.get("subresource")
        ):
            merged |= entry.get("fieldsV1", {})
    return merged


def _project(applied: Any, live: Any, owned: Mapping[str, Any], *, verbatim: bool) -> Any:
    if isinstance(applied, dict) and isinstance(live, Mapping):
        result = {}
        for field, value in applied.items():
            inner = _inner(value, live.get(field, _MISSING), owned.get(f"f:{field}", {}), field, verbatim)
            if inner is not _MISSING:
                result[field] = inner
        return result
    if isinstance(applied, list) and isinstance(live, list):
        return _project_list(applied, live, owned, verbatim=verbatim)
    if applied == live and type(applied) is type(live):
        return applied
    return applied if not verbatim and same_amount(applied, live) else live


def _inner(value: Any, live: Any, owned: Mapping[str, Any], field: str, verbatim: bool) -> Any:
    if live is _MISSING:
        # An empty map, an empty list and an explicit null may be dropped by the server: that is no drift.
        return value if value in ({}, [], None, "") else _MISSING
    return _project(value, live, owned, verbatim=verbatim or field in VERBATIM)


def _project_list(
    applied: list[Any], live: list[Any], owned: Mapping[str, Any], *, verbatim: bool
) -> list[Any]:
    keyed = {name[2:]: fields for name, fields in owned.items() if name.startswith("k:")}
    if keyed:
        return _project_keyed(applied, live, keyed, verbatim=verbatim)
    if any(name.startswith("v:") for name in owned):
        return [value for value in applied if value in live]
    if len(applied) != len(live):
        return live
    return [_project(one, other, {}, verbatim=verbatim) for one, other in zip(applied, live, strict=True)]


def _project_keyed(
    applied: list[Any], live: list[Any], keyed: Mapping[str, Mapping[str, Any]], *, verbatim: bool
) -> list[Any]:
    """Every applied item beside the live item with the same keys; items of others are left out."""
    selectors = [(json.loads(name), fields) for name, fields in keyed.items()]
    result = []
    for item in applied:
        keys, fields = next(((keys, fields) for keys, fields in selectors if _has(item, keys)), (None, {}))
        if keys is None:
            # Not ours any more (others took over every field of it), or a key that the server defaulted.
            keys = _guess(item, selectors[0][0])
        twin = next((other for other in live if _has(other, keys)), _MISSING)
        if twin is not _MISSING:
            result.append(_project(item, twin, fields, verbatim=verbatim))
    return result


def _has(item: Any, keys: Mapping[str, Any]) -> bool:
    return isinstance(item, Mapping) and all(item.get(name) == value for name, value in keys.items())


def _guess(item: Any, like: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item[name] for name in like if isinstance(item, Mapping) and name in item}


# Whether two values of a field of Kueue's API mean the same, however they are written. Pure.
#
# In an amount `9` and "9", 1000m and 1 are one quantity; other text is what it is. An empty map, an empty
# list and null are what a missing field is; a toleration without an operator compares its value. In other
# APIs an empty map can be the opposite of a missing one: the `namespaceSelector: {}` of a NetworkPolicy's
# peer.

# Kueue's fields that are quantities.
_AMOUNTS: Final = frozenset({"nominalQuota", "borrowingLimit", "lendingLimit", "weight"})
# What a field means where it is missing, in every object that has a field of this name.
_DEFAULTS: Final[Mapping[str, Any]] = {"operator": "Equal"}


def same_meaning(one: Any, other: Any, *, field: str = "") -> bool:
    """Whether Kueue would act on both in the same way. `field`: the name under which they are, if any."""
    if _is_empty(one) or _is_empty(other):
        return _is_empty(one) and _is_empty(other)
    if field in VERBATIM:
        return bool(one == other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(same_meaning(_field(one, key), _field(other, key), field=key) for key in {*one, *other})
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_meaning, one, other))
    if field in _AMOUNTS or (_is_number(one) and _is_number(other)):
        return bool(one == other) or same_amount(one, other)
    return bool(one == other and type(one) is type(other))


def is_verbatim(path: str) -> bool:
    """Whether the field at a path is text, in which "1.0" is not "1"."""
    return any(f".{name}" in path for name in VERBATIM)


def _field(body: Mapping[str, Any], key: str) -> Any:
    value = body.get(key)
    return _DEFAULTS.get(key) if value is None else value


def _is_empty(value: Any) -> bool:
    return value is None or (type(value) in (dict, list, str) and not value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# The objects of a Bundle with their identities, or a list of problems.
#
# Nothing here asks a cluster; whether a kind exists and is namespaced is `api.py`'s business.


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
