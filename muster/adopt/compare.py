"""Compares what a stack renders with what the cluster has: what the first `pulumi up` would change.

Field by field, by meaning. Metadata is left out: labels are added, and nothing of it is Kueue's to act on, or
KAI's in a stack with one shard.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from muster.adopt.cluster import KAI_KINDS, LiveCluster, address, title
from muster.adopt.kueue import completed
from muster.live.fields import texts
from muster.model.names import KUEUE_API_VERSION
from muster.model.stack import Scheduler, Stack
from muster.provider.manifests import same_meaning
from muster.render import queues
from muster.render.manifest import Manifest

LABELS: Final = "metadata.labels."
_FRAME: Final = ("apiVersion", "kind", "metadata", "status")
# Lists whose order means nothing, with the field that names an item.
_UNORDERED: Final = {"admissionChecks": "name", "nodeSelector": "key"}
# A text for people: Muster writes one where there is none.
_FOR_PEOPLE: Final = ("description", "spec.displayName")
_VERSIONS: Final = {
    Scheduler.KUEUE: {KUEUE_API_VERSION},
    Scheduler.KAI: {kind.api_version for kind in KAI_KINDS.values()},
}


class Fate(StrEnum):
    """What becomes of an object. `unchanged`: taken over as it is. `different`: a field means something else
    in the stack, or is not in it. `created`: it is new, and follows from names that are there already.
    `kept`: no stack has it, and it stays as it is.
    """

    UNCHANGED = "unchanged"
    DIFFERENT = "different"
    CREATED = "created"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that would mean something else. A side that does not have it is None: what is not written stays
    on the object.
    """

    path: str
    live: Any
    written: Any


@dataclass(frozen=True, slots=True)
class ObjectChange:
    object: str
    fate: Fate
    fields: tuple[FieldChange, ...] = ()


def compare_objects(stack: Stack, live: LiveCluster) -> tuple[ObjectChange, ...]:
    """Every object of the scheduler's, rendered or live."""
    objects, versions = live.objects.get(stack.scheduler, {}), _VERSIONS[stack.scheduler]
    there = {(kind, *address(each)): each for kind, listed in objects.items() for each in listed}
    found = []
    for body in queues.objects(stack):
        if body["apiVersion"] not in versions:
            continue
        other = there.pop((body["kind"], *address(body)), None)
        if other is None:
            found.append(ObjectChange(title(body), Fate.CREATED))
            continue
        fields = tuple(_differences(body["kind"], other, body))
        found.append(ObjectChange(title(body), Fate.DIFFERENT if fields else Fate.UNCHANGED, fields))
    return (*found, *(ObjectChange(title(each), Fate.KEPT) for each in there.values()))


def _differences(kind: str, live: Manifest, written: Manifest) -> Iterator[FieldChange]:
    yield from _labels(live, written)
    one, two = (_content(kind, each) for each in (live, written))
    yield from _below("", one, two, said=written)


def _labels(live: Manifest, written: Manifest) -> Iterator[FieldChange]:
    there = texts(live, "metadata", "labels")
    for key, value in texts(written, "metadata", "labels").items():
        if there.get(key, value) != value:
            yield FieldChange(f"{LABELS}{key}", there[key], value)


def _content(kind: str, body: Manifest) -> dict[str, Any]:
    found = {key: value for key, value in body.items() if key not in _FRAME}
    found["spec"] = _ordered(completed(kind, found.get("spec") or {}))
    return found


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _sorted(below, _UNORDERED[key])
            if key in _UNORDERED and isinstance(below, list)
            else _ordered(below)
            for key, below in value.items()
        }
    return value


def _sorted(listed: list[Any], key: str) -> list[Any]:
    return sorted(listed, key=lambda each: str(each.get(key)) if isinstance(each, Mapping) else "")


def _below(path: str, live: Any, written: Any, *, said: Any) -> Iterator[FieldChange]:
    """`written` is completed with Kueue's defaults; what `said` does not have of it is not written."""
    if same_meaning(live, written, field=path.rpartition(".")[2]) or (path in _FOR_PEOPLE and not live):
        return
    if isinstance(live, Mapping) and isinstance(written, Mapping):
        below = said if isinstance(said, Mapping) else {}
        for key in sorted({*live, *written}):
            yield from _below(
                f"{path}.{key}".lstrip("."), live.get(key), written.get(key), said=below.get(key)
            )
        return
    yield FieldChange(path, live, None if said is None else written)
