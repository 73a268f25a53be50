"""Kinds of the Kubernetes API and the part of every object that all kinds share.

Decides which fields of the metadata are kept: unknown fields are skipped while decoding, so `managedFields`
never reaches the heap. Leaves spec and status to the module that declares a kind:

    class Workload(Object, frozen=True):
        spec: WorkloadSpec = WorkloadSpec()
        status: WorkloadStatus = WorkloadStatus()

    WORKLOAD = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", namespaced=True, type=Workload)
"""

import sys
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, reduce
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
from msgspec.structs import force_setattr

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""A copy of the whole object that kubectl leaves in an annotation: never worth its memory."""

_STATUS: Final = "status"
_WORDS: Final = ("type", "status", "reason")
"""Of a condition: a few dozen words in a whole cluster."""
_NO_WORDS: Final[dict[str, str]] = {}

LARGEST_SHARED: Final = 8 * 1024
"""Bytes of JSON. What is shared outlives the objects that it came with: a thousand large ones, of gangs long
gone, would fill the memory of a process that lives for months.
"""


class Partial(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of every typed piece of an object: camelCase on the wire, snake_case here, unknown fields ignored.

    `gc=False` keeps 50,000 cached objects out of every garbage collection; objects decoded from JSON have
    no cycles.
    """


class OwnerReference(Partial, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Partial, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Key(NamedTuple):
    """Where an object lives. `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Object(Partial, frozen=True):
    """Base of every kind. `apiVersion` and `kind` are not kept: the `Resource` knows them."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> Key:
        return Key(self.metadata.namespace, self.metadata.name)


T = TypeVar("T", bound=Object)


def _share_nothing(meta: ObjectMeta) -> None:
    """One empty dictionary for all objects without labels or annotations."""
    if not meta.labels:
        force_setattr(meta, "labels", _NO_WORDS)
    if not meta.annotations:
        force_setattr(meta, "annotations", _NO_WORDS)


_Shared = msgspec.Struct | dict[str, Any]


def _shared(value: _Shared) -> _Shared:
    encoded = msgspec.json.encode(value)
    return value if len(encoded) > LARGEST_SHARED else _once(encoded, type(value))


@lru_cache(maxsize=4096)
def _once(encoded: bytes, kind: type[msgspec.Struct] | type[dict[str, Any]]) -> _Shared:
    """Gangs made from one template differ in fields that are not read here."""
    return msgspec.json.decode(encoded, type=kind)


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """One kind of the API and the partial type it is decoded into.

    `annotation_prefixes` names the annotations that caches keep (a prefix or a whole key); None keeps all
    of them but kubectl's copy of the object. An object may carry 256 KiB of annotations, so name what you
    read.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[T]
    annotation_prefixes: tuple[str, ...] | None = None
    title: str = ""
    """What it is called in metrics and readiness, where two caches are of one kind."""
    shares: tuple[str, ...] = ()
    """Fields such as `spec` or `status.admission` that are the same in many objects, as far as we read them:
    caches hold each value once.
    """

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return self.title or (f"{self.plural}.{self.group}" if self.group else self.plural)

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of one object, or of its subresource; an empty namespace means
        all of them.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        space = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        rest = "".join(f"/{quote(part, safe='')}" for part in (name, subresource) if part)
        return f"{root}{space}/{self.plural}{rest}"

    def compact(self, obj: T) -> T:
        """Shrink one freshly decoded object for a cache: what many share once, unread annotations not at
        all.
        """
        meta = obj.metadata
        force_setattr(meta, "namespace", sys.intern(meta.namespace))
        for label, value in meta.labels.items():
            meta.labels[label] = sys.intern(value)
        for annotation in [name for name in meta.annotations if not self._keeps(name)]:
            del meta.annotations[annotation]
        _share_nothing(meta)
        for condition in getattr(getattr(obj, _STATUS, None), "conditions", ()):
            for field in _WORDS:
                force_setattr(condition, field, sys.intern(getattr(condition, field)))
        for owner in meta.owner_references:
            force_setattr(owner, "api_version", sys.intern(owner.api_version))
            force_setattr(owner, "kind", sys.intern(owner.kind))
        for path in self.shares:
            *parents, last = path.split(".")
            parent = reduce(getattr, parents, obj)
            if value := getattr(parent, last):
                force_setattr(parent, last, _shared(value))
        return obj

    def _keeps(self, annotation: str) -> bool:
        if self.annotation_prefixes is None:
            return annotation != LAST_APPLIED
        return annotation.startswith(self.annotation_prefixes)
