"""What of a stage is the same in base and head, and so is decided once.

Decides which cohort trees Kueue's answer cannot differ in: quota is lent, borrowed and taken back within one
tree of Cohorts alone, so a tree whose objects are the same on both sides, holding the same Workloads, is one
question, not two. docs/decisions/006 says why. Leaves what the objects are to stage.py.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.live.fields import items, mapping, text
from muster.live.snapshot import Workload
from muster.preview.whatif.fixtures import ManifestBatch
from muster.render.manifest import Manifest

Tree = str
"""The name of what its queues have in common: "cohort/..." of the root, or "queue/..." of one without."""

NO_TREE: Final = ""
"""Of a Workload whose LocalQueue is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """The trees of one stage. `local`: (namespace, LocalQueue) -> tree. `content`: what a tree consists of,
    the same text for the same objects. `cohorts`, `queues`: name -> tree.
    """

    cohorts: Mapping[str, Tree]
    queues: Mapping[str, Tree]
    local: Mapping[tuple[str, str], Tree]
    content: Mapping[Tree, str]

    def of(self, workload: Workload) -> set[Tree]:
        """Where it waits, and where it holds quota: not the same once its LocalQueue points elsewhere."""
        waits = self.local.get((workload.namespace, workload.queue), NO_TREE)
        return {waits, self.queues.get(workload.cluster_queue, waits)}

    def only(self, kept: set[Tree]) -> Callable[[Manifest], bool]:
        """Whether an object has to be there for these trees alone."""
        homes = {namespace for (namespace, _), tree in self.local.items() if tree in kept}

        def is_kept(manifest: Manifest) -> bool:
            name = manifest["metadata"]["name"]
            match manifest["kind"]:
                case "Namespace":
                    return name in homes
                case "Cohort":
                    return self.cohorts[name] in kept
                case "ClusterQueue":
                    return self.queues[name] in kept
                case "LocalQueue":
                    return self.local.get((manifest["metadata"]["namespace"], name)) in kept
            return True

        return is_kept


def to_trees(acts: Iterable[ManifestBatch]) -> Trees:
    by_kind: dict[str, list[Manifest]] = defaultdict(list)
    for act in acts:
        for _, manifest in act:
            by_kind[manifest["kind"]].append(manifest)
    parents = {_name(each): text(each, "spec", "parentName") for each in by_kind["Cohort"]}
    queues = {_name(each): _tree(each, parents) for each in by_kind["ClusterQueue"]}
    cohorts = {name: f"cohort/{_root(name, parents)}" for name in parents}
    local = {
        (text(each, "metadata", "namespace"), _name(each)): queues[text(each, "spec", "clusterQueue")]
        for each in by_kind["LocalQueue"]
        if text(each, "spec", "clusterQueue") in queues
    }
    return Trees(
        cohorts=cohorts, queues=queues, local=local, content=_contents(by_kind, cohorts, queues, local)
    )


def changed_trees(base: Trees, head: Trees, workloads: Iterable[Workload]) -> set[Tree]:
    """Trees of either side about which one answer is not enough: what differs, and whatever a Workload that
    is in two of them ties to what differs. NOWHERE is among them: what has no queue waits, and Kueue says
    why.
    """
    every = base.content.keys() | head.content.keys()
    found = {tree for tree in every if base.content.get(tree) != head.content.get(tree)}
    found.add(NO_TREE)
    ties = [tie for tie in (base.of(each) | head.of(each) for each in workloads) if len(tie) > 1]
    while more := {tree for tie in ties if tie & found for tree in tie} - found:
        found |= more
    return found


def _contents(
    by_kind: Mapping[str, list[Manifest]],
    cohorts: Mapping[str, Tree],
    queues: Mapping[str, Tree],
    local: Mapping[tuple[str, str], Tree],
) -> dict[Tree, str]:
    parts: dict[Tree, list[Any]] = defaultdict(list)
    flavors = {_name(each): each for each in by_kind["ResourceFlavor"]}
    homes = {_name(each): each for each in by_kind["Namespace"]}
    # How urgent work is everywhere: who changes that changes every tree.
    common = by_kind["WorkloadPriorityClass"]
    for each in by_kind["Cohort"]:
        parts[cohorts[_name(each)]].append(each)
    for each in by_kind["ClusterQueue"]:
        parts[queues[_name(each)]] += [each, *(flavors.get(name) for name in _flavors(each))]
    for each in by_kind["LocalQueue"]:
        namespace = text(each, "metadata", "namespace")
        if (tree := local.get((namespace, _name(each)))) is not None:
            parts[tree] += [each, homes.get(namespace)]
    return {tree: _canonical_text([*found, *common]) for tree, found in parts.items()}


def _canonical_text(objects: Iterable[Any]) -> str:
    return "\n".join(sorted(json.dumps(each, sort_keys=True) for each in objects))


def _flavors(queue: Manifest) -> Iterator[str]:
    for group in items(queue, "spec", "resourceGroups"):
        for flavor in items(group, "flavors"):
            yield text(flavor, "name")


def _tree(queue: Manifest, parents: Mapping[str, str]) -> Tree:
    cohort = text(mapping(queue, "spec"), "cohortName")
    return f"cohort/{_root(cohort, parents)}" if cohort else f"queue/{_name(queue)}"


def _root(cohort: str, parents: Mapping[str, str]) -> str:
    """A Cohort that nobody declares is there all the same, as a root."""
    seen = {cohort}
    while (parent := parents.get(cohort, "")) and parent not in seen:
        cohort = parent
        seen.add(cohort)
    return cohort


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])
