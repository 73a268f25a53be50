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
from muster.adopt.compare import LABELS, compare_objects
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
from muster.model.pools import Pool
from muster.model.quantities import GIB, Bytes, Millicores
from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.preview.compare.changes import Changes
from muster.preview.compare.differing import differing
from muster.preview.compare.settings import SettingChange
from muster.preview.compare.side import LoadedSide
from muster.render.manifest import Manifest

_GROUP: Final = names.KUEUE_API_VERSION.partition("/")[0]
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_GROUPS: Final = ": kueue resource groups"
_WORKLOADS: Final = "Workload"


@dataclass(frozen=True, slots=True)
class _Files:
    """The objects of one side. `others`: how many are none of Kueue's."""

    cluster: LiveCluster
    others: int


@dataclass(frozen=True, slots=True)
class ManifestSides:
    """Base and head, and the comparison's own notes."""

    base: LoadedSide
    head: LoadedSide

    def completed(self, changes: Changes) -> Changes:
        """The changes with what stacks do not compare: resource groups are shown as quotas of pools, and what
        of them no pool counts (licences, the order of flavors) as settings.
        """
        kept = [each for each in changes.settings if not each.place.endswith(_GROUPS)]
        sides = [_beside_pools(side.stack) for side in (self.base, self.head) if side.stack is not None]
        if len(sides) == 2:
            kept += [SettingChange(*each) for each in differing(*sides)]
        return replace(changes, settings=tuple(kept))


def load_manifests(base: Path | None, head: Path) -> ManifestSides:
    """Base and head from folders or files; None is a base without any object. PreviewError where a file
    cannot be read, or has an object that cannot be compared.
    """
    sides = [_Files(LiveCluster(objects={}), 0) if base is None else _read(base), _read(head)]
    read = [_read_stack(each.cluster) for each in sides]
    pools = _pools([each.cluster for each in sides])
    stacks = [None if stack is None else replace(stack, pools=pools) for stack, _ in read]
    mistakes = [found for _, found in read]
    notes = tuple(_notes(sides[1], [stack for stack, _ in read], [each.cluster for each in sides]))
    return ManifestSides(
        LoadedSide(base is not None, stacks[0] if base is not None else None, mistakes[0]),
        LoadedSide(True, stacks[1], mistakes[1], notes),
    )


# Files


def _read(path: Path) -> _Files:
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
    return _Files(LiveCluster(objects=objects), others)


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
    declared = {text(each, "metadata", "name") for each in live.of("ResourceFlavor")}
    missing = [_flavor(name) for name in sorted(_flavors(live).keys() - declared)]
    whole = replace(live, objects={**live.objects, "ResourceFlavor": (*live.of("ResourceFlavor"), *missing)})
    _, values = to_kueue(whole, {}, Findings())
    values |= {
        "cluster": {"provider": "existing", "name": "manifests", "context": "manifests"},
        "gangAdmission": "off",
        "tenancy": {"mode": "off", "namespaces": "existing"},
    }
    config = {f"muster:{key}": value for key, value in values.items() if value or key == "pools"}
    stack, found = examine(parse_text(json.dumps({"config": config}), source="manifests.yaml"))
    return stack, () if stack else tuple(each for each in found if each.level == "error")


def _flavor(name: str) -> Manifest:
    return {"apiVersion": names.KUEUE_API_VERSION, "kind": "ResourceFlavor", "metadata": {"name": name}}


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
            if quota.name not in ("cpu", "memory", *names.DEVICE_RESOURCES):
                limits = {"borrows": quota.borrowing, "lends": quota.lending}
                words = [f"{key} {limit}" for key, limit in limits.items() if limit is not None]
                yield f"quota of {quota.name} in {flavor.name}", ", ".join([str(quota.nominal), *words])


def _notes(
    files: _Files, stacks: Sequence[Stack | None], sides: Sequence[LiveCluster]
) -> Iterator[Violation]:
    """What is not compared, and what Kueue accepts in silence."""
    unread = [
        {} if stack is None else dict(_unread(stack, side)) for stack, side in zip(stacks, sides, strict=True)
    ]
    for place, before, after in [(key, unread[0].get(key), value) for key, value in unread[1].items()]:
        how = (
            "is the same on both sides"
            if before == after
            else f"changes from {before or 'nothing'} to {after}"
        )
        yield Violation(place, f"is not compared, and {how}.", "review it by hand.", level="warning")
    head = sides[1]
    declared = {text(each, "metadata", "name") for each in head.of("ResourceFlavor")}
    if declared:
        for name in sorted(_flavors(head).keys() - declared):
            message = "is in no file, and Kueue keeps a queue inactive whose flavor does not exist."
            yield Violation(
                f"ResourceFlavor {name}", message, "add it, or correct the name.", level="warning"
            )


def _unread(stack: Stack, live: LiveCluster) -> Iterator[tuple[str, str]]:
    """The fields that the stack does not have as the object has them."""
    for change in compare_objects(stack, live):
        for field in change.fields:
            if field.live is not None and not field.path.startswith(LABELS):
                yield f"{change.object}: {field.path}", json.dumps(field.live, sort_keys=True)
