"""Texts of manifests as the queue objects of a cluster: Kueue's and KAI's among any others.

Responsible for which objects count, for older versions of Kueue's API, and for fields that no version has,
which an API server drops.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from muster.adopt.cluster import KAI_KINDS, LiveCluster, address, title
from muster.bounded_yaml import explain, load_with_lines
from muster.errors import MusterError
from muster.live.fields import items, text
from muster.model import names
from muster.model.kai import OWN_CLASSES
from muster.model.kai.tree import RESOURCES
from muster.model.quantities import many
from muster.model.stack import Scheduler
from muster.model.violations import suggestion
from muster.render.manifest import Manifest

_KUEUE: Final = names.KUEUE_API_VERSION.partition("/")[0]
_OLD: Final = f"{_KUEUE}/v1beta1"
_KAI: Final = {
    kind.api_version.partition("/")[0] for name, kind in KAI_KINDS.items() if name != "PriorityClass"
}
# Objects of running work, not of queues.
_WORK: Final = ("Workload", "PodGroup", "BindRequest")
_FRAME: Final = ("apiVersion", "kind", "metadata", "status")

_GROUPS: Final = (
    "resourceGroups.coveredResources resourceGroups.flavors.name resourceGroups.flavors.resources.name "
    "resourceGroups.flavors.resources.nominalQuota resourceGroups.flavors.resources.borrowingLimit "
    "resourceGroups.flavors.resources.lendingLimit fairSharing.weight"
)
# The fields of each kind's `spec`. Below the last name of a path anything may stand.
# Sources: config/components/crd/bases of Kueue 0.19.2, v1beta2; pkg/apis/scheduling/v2/queue_types.go of KAI
# 0.17.0. Read 2026-11-28.
_FIELDS: Final[Mapping[str, str]] = {
    "ClusterQueue": f"{_GROUPS} cohortName queueingStrategy stopPolicy namespaceSelector "
    "admissionChecksStrategy.admissionChecks.name admissionChecksStrategy.admissionChecks.onFlavors "
    "admissionScope.admissionMode concurrentAdmissionPolicy.migration.mode "
    "concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName flavorFungibility.preference "
    "flavorFungibility.whenCanBorrow flavorFungibility.whenCanPreempt preemption.reclaimWithinCohort "
    "preemption.withinClusterQueue preemption.borrowWithinCohort.maxPriorityThreshold "
    "preemption.borrowWithinCohort.policy",
    "Cohort": f"{_GROUPS} parentName",
    "LocalQueue": "clusterQueue fairSharing.weight stopPolicy",
    "ResourceFlavor": "nodeLabels nodeTaints tolerations topologyName",
    "AdmissionCheck": "controllerName parameters.apiGroup parameters.kind parameters.name",
    "Queue": "displayName parentQueue priority preemptMinRuntime reclaimMinRuntime "
    + " ".join(
        f"resources.{each}.{key}" for each in RESOURCES for key in ("quota", "limit", "overQuotaWeight")
    ),
}
# Kueue's conversion has no place for the first in v1beta2, and drops it.
# Source: apis/kueue/v1beta1/zz_generated.conversion.go of Kueue 0.19.2, read 2026-11-28.
_MOVED: Final[Mapping[str, str]] = {
    "admissionChecks": "write them as admissionChecksStrategy.admissionChecks: [{name: ...}]",
    "cohort": "write cohortName",
    "parent": "write parentName",
}
_FUNGIBILITY: Final = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


@dataclass(frozen=True, slots=True)
class Text:
    """The text of one file. `place` is what an error calls it."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """A field that the API does not have: its value, and what is probably meant."""

    value: Any
    fix: str


@dataclass(frozen=True, slots=True)
class ManifestObjects:
    """The queue objects of one side. `dropped`: `ClusterQueue vision: spec.cohort` -> what is no field.
    Nodes are kept as well. `others`: how many objects are not of queues.
    """

    live: LiveCluster = field(default_factory=lambda: LiveCluster(objects={}))
    dropped: Mapping[str, Dropped] = field(default_factory=dict)
    others: int = 0


def read_objects(texts: tuple[Text, ...] | None) -> ManifestObjects:
    """None is a side without any object. MusterError by file and line where a text cannot be read, or an
    object cannot be compared.
    """
    if texts is None:
        return ManifestObjects()
    found: dict[Scheduler, dict[str, dict[tuple[str, str], tuple[str, Manifest]]]] = {
        scheduler: {} for scheduler in Scheduler
    }
    dropped: dict[str, Dropped] = {}
    others = 0
    nodes: list[Manifest] = []
    for where, written in _objects(texts):
        scheduler = _scheduler_of(written)
        if scheduler is None:
            others += 1
            if (text(written, "apiVersion"), text(written, "kind")) == ("v1", "Node"):
                nodes.append(written)
            continue
        body = _current(where, written, scheduler)
        body = _without_unknown(body, dropped)
        listed = found[scheduler].setdefault(body["kind"], {})
        first = listed.setdefault(address(body), (where, body))
        if first[1] is not body:
            raise MusterError(
                f"{where}: {title(body)} is in {first[0]} as well.", fix="remove one of the two."
            )
    # Classes of these names are KAI's beside its queues alone.
    if found[Scheduler.KAI].keys() == {"PriorityClass"}:
        others += len(found[Scheduler.KAI].pop("PriorityClass"))
    if not any(found.values()):
        raise MusterError(
            f"{texts[0].place if len(texts) == 1 else 'the files'}: no object of Kueue or KAI is among "
            f"{many(others, 'object')}.",
            fix="name what `helm template` or `kustomize build` wrote, or `none` for a side without any.",
        )
    objects = {
        scheduler: {
            kind: tuple(body for _, (_, body) in sorted(listed.items())) for kind, listed in kinds.items()
        }
        for scheduler, kinds in found.items()
    }
    live = LiveCluster(objects=objects, nodes=tuple(nodes), is_whole=False)
    return ManifestObjects(live, dropped, others)


def _scheduler_of(body: Manifest) -> Scheduler | None:
    """Whose queue object it is; None of any other object."""
    group, kind = text(body, "apiVersion").partition("/")[0], text(body, "kind")
    if kind in _WORK:
        return None
    if group == _KUEUE:
        return Scheduler.KUEUE
    is_own_class = kind == "PriorityClass" and text(body, "metadata", "name") in OWN_CLASSES
    return Scheduler.KAI if group in _KAI or is_own_class else None


def _current(where: str, body: Manifest, scheduler: Scheduler) -> Manifest:
    """The object in the version that is compared."""
    kind, version = text(body, "kind"), text(body, "apiVersion")
    current = names.KUEUE_API_VERSION
    if scheduler is Scheduler.KAI:
        current = KAI_KINDS[kind].api_version if kind in KAI_KINDS else version
    elif version == _OLD:
        body, version = _converted(body), current
    if version != current:
        raise MusterError(
            f"{where}: {kind} {text(body, 'metadata', 'name')} is of {version}, which is not compared.",
            fix=f"write it as {current}.",
        )
    if not text(body, "metadata", "name"):
        raise MusterError(f"{where}: {kind} has no metadata.name.", fix="give it a name.")
    return body


def _converted(body: Manifest) -> Manifest:
    """Kueue's v1beta1 as its own conversion reads it. What v1beta2 does not have stays, and is named."""
    spec = dict(body.get("spec") or {}) if isinstance(body.get("spec"), Mapping) else {}
    if body["kind"] == "ClusterQueue":
        if "cohort" in spec:
            spec.setdefault("cohortName", spec.pop("cohort"))
        if isinstance(chosen := spec.get("flavorFungibility"), Mapping):
            spec["flavorFungibility"] = {
                key: _FUNGIBILITY.get(str(each), each) for key, each in chosen.items()
            }
    return {**body, "apiVersion": names.KUEUE_API_VERSION, **({"spec": spec} if spec else {})}


# Fields that no API has


def _without_unknown(body: Manifest, dropped: dict[str, Dropped]) -> Manifest:
    paths = _FIELDS.get(body["kind"])
    if paths is None:
        return body
    spec = _known(body.get("spec"), _tree(paths), f"{title(body)}: spec", dropped)
    for key in [key for key in body if key not in (*_FRAME, "spec")]:
        dropped[f"{title(body)}: {key}"] = Dropped(body[key], "remove it.")
    return {**{key: body[key] for key in _FRAME if key in body}, "spec": spec or {}}


_Tree = dict[str, "_Tree"]
_trees: Final[dict[str, _Tree]] = {}


def _tree(paths: str) -> _Tree:
    if paths not in _trees:
        root: _Tree = {}
        for path in paths.split():
            at = root
            for key in path.split("."):
                at = at.setdefault(key, {})
        _trees[paths] = root
    return _trees[paths]


def _known(value: Any, tree: _Tree, place: str, dropped: dict[str, Dropped]) -> Any:
    """The value without the fields that the tree lacks, which are collected."""
    if not tree:
        return value
    if isinstance(value, list):
        return [_known(each, tree, f"{place}[{index}]", dropped) for index, each in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    kept = {}
    for key, below in value.items():
        if key in tree:
            kept[key] = _known(below, tree[key], f"{place}.{key}", dropped)
        else:
            dropped[f"{place}.{key}"] = Dropped(below, _meant(str(key), tree))
    return kept


def _meant(key: str, tree: _Tree) -> str:
    if key in _MOVED:
        return f"{_MOVED[key]}."
    return suggestion(key, tree, noun="field")


# Texts


def _objects(texts: tuple[Text, ...]) -> Iterator[tuple[str, Manifest]]:
    """Every object with its place, FILE:LINE. Items of a List are at its line."""
    for each in texts:
        for line, document in _documents(each):
            bodies = items(document, "items") if text(document, "kind").endswith("List") else [document]
            for body in bodies:
                if isinstance(body, Mapping) and text(body, "kind"):
                    yield f"{each.place}:{line}", dict(body)


def _documents(written: Text) -> Iterator[tuple[int, object]]:
    try:
        yield from load_with_lines(written.text, is_strict=True)
    except yaml.YAMLError as error:
        line, message, fix = explain(error, written.text)
        raise MusterError(
            f"{written.place}:{line}: {message}", fix=f"{fix} A template is rendered first: `helm template`."
        ) from error
    except (RecursionError, ValueError) as error:
        raise MusterError(f"{written.place}: is not YAML that can be read.", fix="name manifests.") from error
