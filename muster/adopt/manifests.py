"""Kueue's objects in files, base and head, as two stacks that the report of every change compares.

Responsible for reading the files, and for what the report needs and objects do not have: a pool for every
flavor, the same on both sides, so that quotas are counted in GPUs or CPU. Whatever the comparison does not
understand is named. Not responsible for how objects become a stack (kueue.py).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from muster.adopt.cluster import LiveCluster, address, title
from muster.adopt.compare import LABELS, Fate, compare_objects
from muster.adopt.findings import Findings
from muster.adopt.kueue import to_kueue
from muster.adopt.nodes import named_accelerator
from muster.adopt.titles import NameBook
from muster.bounded_yaml import explain, load_with_lines
from muster.config.document import parse_text
from muster.config.stack import examine
from muster.live.errors import PreviewError
from muster.live.fields import items, text, texts
from muster.live.kueue_tree import read_tree
from muster.model import names
from muster.model.accelerators import ACCELERATORS, Accelerator
from muster.model.capacity import Capacity
from muster.model.kueue import FlavorQuota, PoolOptions, Quota
from muster.model.kueue.tree import Node, to_tree
from muster.model.machines.own import own_machine
from muster.model.plural import many
from muster.model.pools import Pool
from muster.model.quantities import GIB, Bytes, Millicores
from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.preview.compare.diff import StackDiff
from muster.preview.compare.differing import differing
from muster.preview.compare.settings import SettingChange
from muster.preview.compare.side import LoadedSide
from muster.render.manifest import Manifest

_GROUP: Final = names.KUEUE_API_VERSION.partition("/")[0]
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_GROUPS: Final = ": kueue resource groups"
_OF_POOLS: Final = ("cpu", "memory", *names.DEVICE_RESOURCES)
_WORKLOADS: Final = "Workload"


@dataclass(frozen=True, slots=True)
class ManifestSides:
    """Base and head, and the comparison's own notes."""

    base: LoadedSide
    head: LoadedSide

    def completed(self, diff: StackDiff) -> StackDiff:
        """The comparison as objects have it: resource groups are shown as quotas of pools, and what no pool
        counts of them (licences, the order of flavors) as settings. Of pools nothing is known but quotas.
        """
        if diff.changes is None:
            return diff
        kept = [each for each in diff.changes.settings if not each.place.endswith(_GROUPS)]
        before, after = (_beside_pools(side.stack) if side.stack else {} for side in (self.base, self.head))
        kept += [SettingChange(*each) for each in differing(before, after)]
        changes = replace(diff.changes, settings=tuple(kept), pools=(), order=None)
        return replace(diff, changes=changes, pools=(), cost=None)


def load_manifests(base: Path | None, head: Path) -> ManifestSides:
    """Base and head from folders or files; None is a base without any object. PreviewError where a file
    cannot be read, or has an object that cannot be compared.
    """
    sides = [LiveCluster(objects={}) if base is None else _read(base), _read(head)]
    read = [_read_stack(each) for each in sides]
    pools = _pools(sides)
    stacks = [None if stack is None else replace(stack, pools=pools) for stack, _ in read]
    mistakes = [found for _, found in read]
    notes = tuple(_notes([stack for stack, _ in read], sides))
    return ManifestSides(
        LoadedSide(base is not None, stacks[0] if base is not None else None, mistakes[0]),
        LoadedSide(True, stacks[1], mistakes[1], notes),
    )


# Files


def _read(path: Path) -> LiveCluster:
    found: dict[str, dict[tuple[str, str], tuple[str, Manifest]]] = {}
    others = 0
    for where, body in _objects(path):
        kind, version = text(body, "kind"), text(body, "apiVersion")
        if version.partition("/")[0] != _GROUP or kind == _WORKLOADS:
            others += 1
            continue
        if version != names.KUEUE_API_VERSION:
            raise PreviewError(
                f"{where}: {kind} {text(body, 'metadata', 'name')} is of {version}, which is not compared.",
                fix=f"write it as {names.KUEUE_API_VERSION}, as `kubectl get` of Kueue 0.15 or newer does.",
            )
        if not text(body, "metadata", "name"):
            raise PreviewError(f"{where}: {kind} has no metadata.name.", fix="give it a name.")
        listed = found.setdefault(kind, {})
        first = listed.setdefault(address(body), (where, body))
        if first[1] is not body:
            raise PreviewError(
                f"{where}: {title(body)} is in {first[0]} as well.", fix="remove one of the two."
            )
    objects = {kind: tuple(body for _, (_, body) in sorted(listed.items())) for kind, listed in found.items()}
    if not objects:
        raise PreviewError(
            f"{path}: no object of Kueue is among {many(others, 'object')}.",
            fix="name what `helm template` or `kustomize build` wrote, or `none` for a base without any.",
        )
    return LiveCluster(objects=objects)


def _objects(path: Path) -> Iterator[tuple[str, Manifest]]:
    """Every object with its place, FILE:LINE. Items of a List are at its line."""
    if not path.exists():
        raise PreviewError(f"{path}: no such file or folder.", fix="name a folder or a file of manifests.")
    files = [path]
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES and each.is_file())
    for file in files:
        for line, document in _documents(file):
            bodies = items(document, "items") if text(document, "kind").endswith("List") else [document]
            for body in bodies:
                if isinstance(body, Mapping) and text(body, "kind"):
                    yield f"{file}:{line}", dict(body)


def _documents(file: Path) -> list[tuple[int, object]]:
    try:
        written = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PreviewError(f"{file}: cannot be read.", fix="name files of UTF-8 text.") from error
    try:
        return list(load_with_lines(written))
    except yaml.YAMLError as error:
        line, message, fix = explain(error, written)
        raise PreviewError(
            f"{file}:{line}: {message}", fix=f"{fix} A template is rendered first: `helm template`."
        ) from error
    except RecursionError as error:
        raise PreviewError(f"{file}: nests too deeply.", fix="name files of manifests.") from error


# Stacks


def _read_stack(live: LiveCluster) -> tuple[Stack | None, tuple[Violation, ...]]:
    """The stack that the objects are, without pools, or why they are none. What a stack of Muster's must be
    beyond that is not asked of them.
    """
    missing = {kind: (*live.of(kind), *listed) for kind, listed in _missing(live).items()}
    _, values = to_kueue(replace(live, objects={**live.objects, **missing}), {}, Findings())
    values |= {
        "cluster": {"provider": "existing", "name": "manifests", "context": "manifests"},
        "gangAdmission": "off",
        "tenancy": {"mode": "off", "namespaces": "existing"},
    }
    config = {f"muster:{key}": value for key, value in values.items() if value or key == "pools"}
    stack, found = examine(parse_text(json.dumps({"config": config}), source="manifests.yaml"))
    return stack, () if stack else tuple(each for each in found if each.level == "error")


def _missing(live: LiveCluster) -> dict[str, list[Manifest]]:
    """Flavors and checks that queues name and no file has: they may be in another folder."""
    checks = {
        text(use, "name")
        for queue in live.of("ClusterQueue")
        for use in items(queue, "spec", "admissionChecksStrategy", "admissionChecks")
    }
    found: dict[str, list[Manifest]] = {}
    for kind, used in (("ResourceFlavor", {*_flavors(live)}), ("AdmissionCheck", checks)):
        there = {text(each, "metadata", "name") for each in live.of(kind)}
        found[kind] = [
            {
                "apiVersion": names.KUEUE_API_VERSION,
                "kind": kind,
                "metadata": {"name": name},
                "spec": {"controllerName": "unknown"} if kind == "AdmissionCheck" else {},
            }
            for name in sorted(used - there)
        ]
    return found


def _flavors(live: LiveCluster) -> dict[str, list[FlavorQuota]]:
    """Flavor -> its quotas in every queue, in the order in which queues try them."""
    found: dict[str, list[FlavorQuota]] = {}
    try:
        tree = read_tree((*live.of("Cohort"), *live.of("ClusterQueue")))
    except ValueError as error:
        raise PreviewError(f"an amount of a queue: {error}.", fix="correct the amount.") from error
    for node in tree.nodes.values():
        for flavor in node.flavors:
            found.setdefault(flavor.name, []).append(flavor)
    return found


def _pools(sides: Sequence[LiveCluster]) -> tuple[Pool, ...]:
    """A pool for each flavor of either side. What its nodes are is unknown, and the same in both."""
    labels: dict[str, dict[str, str]] = {}
    quotas: dict[str, list[FlavorQuota]] = {}
    for side in sides:
        for each in side.of("ResourceFlavor"):
            labels[text(each, "metadata", "name")] = texts(each, "spec", "nodeLabels")
        for name, found in _flavors(side).items():
            if any(quota.name in _OF_POOLS for flavor in found for quota in flavor.resources):
                quotas.setdefault(name, []).extend(found)
    book = NameBook({names.SYSTEM_POOL})
    return tuple(_pool(name, labels.get(name, {}), found, book) for name, found in quotas.items())


def _pool(flavor: str, labels: dict[str, str], quotas: Iterable[FlavorQuota], book: NameBook) -> Pool:
    device = next((each.name for quota in quotas for each in quota.resources if _is_device(each)), None)
    name = book.take(labels.get(names.POOL_LABEL, flavor), suffix="pool")
    gpu = None if device is None else _accelerator(named_accelerator(labels) or flavor, device)
    machine = own_machine(cpu=Millicores(1000), memory=Bytes(GIB), gpus=1 if gpu else 0, gpu=gpu, labels={})
    return Pool(
        name=name,
        machine=machine,
        gpus_per_node=1 if gpu else 0,
        capacity=Capacity.ON_DEMAND,
        max_nodes=1,
        kueue=PoolOptions(flavor=flavor if name != flavor else None, exact=True),
    )


def _is_device(quota: Quota) -> bool:
    limits = (quota.nominal, quota.borrowing)
    return quota.name in names.DEVICE_RESOURCES and any(each is not None and each.value for each in limits)


def _accelerator(name: str, device: str) -> Accelerator:
    """Of a device that no table has only the name is known, and what Kubernetes counts."""
    found = ACCELERATORS.get(name)
    if found is not None and found.resource == device:
        return found
    return Accelerator(
        name=name,
        memory_mib=0,
        rank=0,
        resource=device,
        short=(),
        product="",
        mig={},
        gke_quota="",
        gke_sku="",
        gke_whole=False,
    )


# What a report of pools leaves out


def _beside_pools(stack: Stack) -> dict[str, str]:
    """Place -> value of what resource groups say beside the quotas of pools."""
    found: dict[str, str] = {}
    for node in to_tree(stack).nodes.values():
        place = f"{'team' if node.is_team else 'department'} {node.name}"
        if len(node.flavors) > 1:
            found[f"{place}: flavors"] = ", ".join(flavor.name for flavor in node.flavors)
        found |= {f"{place}: {key}": value for key, value in _other_quotas(node)}
    return found


def _other_quotas(node: Node) -> Iterator[tuple[str, str]]:
    for flavor in node.flavors:
        for quota in flavor.resources:
            if quota.name not in _OF_POOLS:
                limits = {"borrows": quota.borrowing, "lends": quota.lending}
                words = [f"{key} {limit}" for key, limit in limits.items() if limit is not None]
                yield f"quota of {quota.name} in {flavor.name}", ", ".join([str(quota.nominal), *words])


def _notes(stacks: Sequence[Stack | None], sides: Sequence[LiveCluster]) -> Iterator[Violation]:
    """What is not compared, and what Kueue accepts in silence."""
    unread = [
        {} if stack is None else dict(_unread(stack, side)) for stack, side in zip(stacks, sides, strict=True)
    ]
    before, after = unread
    for place in {**after, **before}:
        how = "is the same on both sides"
        if before.get(place) != after.get(place):
            how = f"changes from {before.get(place, 'nothing')} to {after.get(place, 'nothing')}"
        yield Violation(place, f"is not compared, and {how}.", "review it by hand.", level="warning")
    for kind, missing in _missing(sides[1]).items():
        for each in missing if sides[1].of(kind) else ():
            message = "is in no file, and without it Kueue keeps the queues inactive that name it."
            yield Violation(title(each), message, "add it, or correct the name.", level="warning")


def _unread(stack: Stack, live: LiveCluster) -> Iterator[tuple[str, str]]:
    """The objects that the stack lacks, and the fields that it does not have as the object has them."""
    bodies = {title(each): each for listed in live.objects.values() for each in listed}
    for change in compare_objects(stack, live):
        if change.fate is Fate.KEPT:
            yield change.object, json.dumps(bodies[change.object].get("spec"), sort_keys=True)
        for field in change.fields:
            if field.live is not None and not field.path.startswith(LABELS):
                yield f"{change.object}: {field.path}", json.dumps(field.live, sort_keys=True)
