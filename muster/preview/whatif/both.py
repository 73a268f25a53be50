"""Simulates base and head. What is equal in both is simulated once, and the two run in parallel.

Kueue lends, borrows and reclaims quota within one tree of Cohorts. A tree with the same objects and the same
Workloads on both sides gets the same decisions (docs/decisions/006).
"""

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from muster.live.fields import text
from muster.live.kueue_tree import read_tree
from muster.live.snapshot import Workload
from muster.model import names
from muster.model.kueue import tree as kueue_tree
from muster.model.queues import Team
from muster.model.stack import Stack
from muster.preview.whatif.scenario import Outcome, Progress, Scenario
from muster.render import kueue
from muster.render.manifest import Manifest

# Which objects of a stack are created on the temporary control plane.
# Admission checks are left out and count as Ready, because whether a cloud has capacity cannot be known.

# Kind -> path, in the order in which the objects refer to each other.
_KINDS: Final = {
    "Namespace": "/api/v1/namespaces",
    "Topology": f"/apis/{names.KUEUE_API_VERSION}/topologies",
    "ResourceFlavor": f"/apis/{names.KUEUE_API_VERSION}/resourceflavors",
    "WorkloadPriorityClass": f"/apis/{names.KUEUE_API_VERSION}/workloadpriorityclasses",
    "Cohort": f"/apis/{names.KUEUE_API_VERSION}/cohorts",
    "ClusterQueue": f"/apis/{names.KUEUE_API_VERSION}/clusterqueues",
    "LocalQueue": f"/apis/{names.KUEUE_API_VERSION}/namespaces/{{namespace}}/localqueues",
}
_IN_USE: Final = "kueue.x-k8s.io/resource-in-use"


ManifestBatch = list[tuple[str, Manifest]]


def manifest_batches(stack: Stack) -> Iterator[ManifestBatch]:
    """(path, object) of everything to create, one batch a kind. The objects of a batch need no order."""
    found: dict[str, list[tuple[str, Manifest]]] = {kind: [] for kind in _KINDS}
    for manifest in _manifests(stack):
        if manifest["kind"] in _KINDS:
            found[manifest["kind"]].append(with_path(_without_checks(manifest)))
    return (batch for batch in found.values() if batch)


def with_path(manifest: Manifest) -> tuple[str, Manifest]:
    """An object with the path at which it is created."""
    namespace = manifest["metadata"].get("namespace")
    return _KINDS[manifest["kind"]].format(namespace=namespace), manifest


def _manifests(stack: Stack) -> Iterator[Manifest]:
    yield from kueue.flavors(stack)
    yield from kueue.priority_classes(stack)
    created = set()
    for teams in kueue.by_department(stack).values():
        for objects in teams.values():
            created |= {each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"}
            yield from objects
    for _, team in stack.teams():
        yield from (_existing(name, team) for name in team.namespaces if name not in created)


def _existing(namespace: str, team: Team) -> Manifest:
    """A namespace that the stack does not create. Its labels are those that the team's queue asks for."""
    selector = team.kueue.namespace_selector
    labels = dict(selector.match_labels) if selector else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}


def _without_checks(manifest: Manifest) -> Manifest:
    if manifest["kind"] != "ClusterQueue":
        return manifest
    spec = {key: value for key, value in manifest["spec"].items() if key != "admissionChecksStrategy"}
    # Kueue would add the finalizer itself, with one more write for each queue.
    metadata = {**manifest["metadata"], "finalizers": [_IN_USE]}
    return {**manifest, "metadata": metadata, "spec": spec}


Tree = str
"""The name of a tree: "cohort/ROOT", or "queue/NAME" of a ClusterQueue without a Cohort."""

NO_TREE: Final = ""
"""The tree of a Workload whose LocalQueue does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """The trees of one side. `local`: (namespace, LocalQueue) -> tree. `content`: the objects of a tree as
    text, equal for equal objects. `cohorts`, `queues`: name -> tree.
    """

    cohorts: Mapping[str, Tree]
    queues: Mapping[str, Tree]
    local: Mapping[tuple[str, str], Tree]
    content: Mapping[Tree, str]

    def of(self, workload: Workload) -> set[Tree]:
        """The trees where it is queued and where it holds quota. They differ if its LocalQueue was
        repointed.
        """
        waits = self.local.get((workload.namespace, workload.queue), NO_TREE)
        return {waits, self.queues.get(workload.cluster_queue, waits)}

    def only(self, kept: set[Tree]) -> Callable[[Manifest], bool]:
        """A predicate for the objects that these trees need."""
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


def to_trees(batches: Iterable[ManifestBatch]) -> Trees:
    by_kind: dict[str, list[Manifest]] = defaultdict(list)
    for batch in batches:
        for _, manifest in batch:
            by_kind[manifest["kind"]].append(manifest)
    tree = read_tree([*by_kind["Cohort"], *by_kind["ClusterQueue"]])
    queues: dict[str, Tree] = {}
    cohorts: dict[str, Tree] = {}
    for key, node in tree.nodes.items():
        top = tree.chain(key)[-1]
        kind = "queue" if top.is_team else "cohort"
        (queues if node.is_team else cohorts)[node.object_name] = f"{kind}/{top.object_name}"
    local = {
        (text(each, "metadata", "namespace"), _name(each)): queues[text(each, "spec", "clusterQueue")]
        for each in by_kind["LocalQueue"]
        if text(each, "spec", "clusterQueue") in queues
    }
    return Trees(
        cohorts=cohorts,
        queues=queues,
        local=local,
        content=_contents(by_kind, tree, cohorts, queues, local),
    )


def changed_trees(base: Trees, head: Trees, workloads: Iterable[Workload]) -> set[Tree]:
    """Trees that both sides have to simulate: those that differ, and those that a Workload in two trees
    connects to one that differs. NO_TREE is always included: Kueue gives a reason for Workloads without a
    queue, too.
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
    queue_tree: kueue_tree.Tree,
    cohorts: Mapping[str, Tree],
    queues: Mapping[str, Tree],
    local: Mapping[tuple[str, str], Tree],
) -> dict[Tree, str]:
    parts: dict[Tree, list[Any]] = defaultdict(list)
    flavors = {_name(each): each for each in by_kind["ResourceFlavor"]}
    homes = {_name(each): each for each in by_kind["Namespace"]}
    # Priorities apply everywhere, so a change of one changes every tree.
    common = by_kind["WorkloadPriorityClass"]
    for each in by_kind["Cohort"]:
        parts[cohorts[_name(each)]].append(each)
    for each in by_kind["ClusterQueue"]:
        used = queue_tree.nodes[_name(each)].flavors
        parts[queues[_name(each)]] += [each, *(flavors.get(flavor.name) for flavor in used)]
    for each in by_kind["LocalQueue"]:
        namespace = text(each, "metadata", "namespace")
        if (tree := local.get((namespace, _name(each)))) is not None:
            parts[tree] += [each, homes.get(namespace)]
    return {tree: _canonical_text([*found, *common]) for tree, found in parts.items()}


def _canonical_text(objects: Iterable[Any]) -> str:
    return "\n".join(sorted(json.dumps(each, sort_keys=True) for each in objects))


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


Found = TypeVar("Found")
OnProgress = Callable[[str, str], None]
"""Called with the side and a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """What head has to simulate: the `workloads` and `batches` of cohort trees that differ from base.
    `shared` is the number of trees that do not.
    """

    batches: Sequence[ManifestBatch]
    config: Mapping[str, Any]
    workloads: Sequence[Workload]
    shared: int

    @property
    def is_empty(self) -> bool:
        return not self.workloads and not any(_has_cluster_queue(batch) for batch in self.batches)


class Engine(Protocol):
    """Decides as Kueue does, about one side."""

    def is_parallel(self, scenario: Scenario, /) -> bool:
        """Whether both sides may run at the same time."""

    def simulate(
        self,
        batches: Sequence[ManifestBatch],
        config: Mapping[str, Any],
        scenario: Scenario,
        *,
        progress: Progress,
    ) -> Outcome: ...


def simulate_both(
    base: Stack, head: Stack, scenario: Scenario, engine: Engine, on_progress: OnProgress
) -> tuple[Outcome, Outcome]:
    """The outcomes of base and of head."""
    batches, config = [*manifest_batches(base)], kueue.deciding_config(base)
    rerun = queues_to_rerun(base, head, scenario.snapshot.workloads)
    if rerun.shared:
        on_progress("head", f"{rerun.shared} cohort trees are equal in base and are simulated there")
    first = partial(engine.simulate, batches, config, scenario, progress=partial(on_progress, "base"))
    if rerun.is_empty:
        outcome = first()
        return outcome, outcome
    smaller = replace(scenario, snapshot=replace(scenario.snapshot, workloads=tuple(rerun.workloads)))
    second = partial(
        engine.simulate, rerun.batches, rerun.config, smaller, progress=partial(on_progress, "head")
    )
    if not engine.is_parallel(scenario):
        outcome = first()
        return outcome, merge_outcomes(outcome, second(), rerun.workloads)
    second_run = _Background(second)
    outcome = first()
    return outcome, merge_outcomes(outcome, second_run.result(), rerun.workloads)


def queues_to_rerun(base: Stack, head: Stack, workloads: Sequence[Workload]) -> Rerun:
    """The queues and Workloads that head has to simulate: all of them where Kueue's configuration differs."""
    batches, config = [*manifest_batches(head)], kueue.deciding_config(head)
    before, after = to_trees(manifest_batches(base)), to_trees(batches)
    if config != kueue.deciding_config(base):
        return Rerun(batches=batches, config=config, workloads=workloads, shared=0)
    touched = changed_trees(before, after, workloads)
    is_kept = after.only(touched)
    return Rerun(
        batches=[kept for batch in batches if (kept := [pair for pair in batch if is_kept(pair[1])])],
        config=config,
        workloads=[each for each in workloads if (before.of(each) | after.of(each)) & touched],
        shared=len(after.content.keys() - touched),
    )


def merge_outcomes(base: Outcome, head: Outcome, simulated: Sequence[Workload]) -> Outcome:
    """Head's outcome, completed by base's for the Workloads that head did not simulate."""
    labels = {f"{each.namespace}/{each.name}" for each in simulated}
    lines = {(each.namespace, each.queue) for each in simulated}
    decisions = {label: each for label, each in base.decisions.items() if label not in labels}
    used = {line: each for line, each in base.used.items() if line not in lines}
    return Outcome(
        decisions={**decisions, **head.decisions},
        used={**used, **head.used},
        is_settled=head.is_settled and (base.is_settled or not decisions),
        seconds=head.seconds,
    )


def _has_cluster_queue(batch: ManifestBatch) -> bool:
    return any(manifest["kind"] == "ClusterQueue" for _, manifest in batch)


class _Background(Generic[Found]):
    """Runs in a daemon thread, so that an interrupted caller does not wait for it."""

    def __init__(self, run: Callable[[], Found]) -> None:
        self._future: Future[Found] = Future()
        threading.Thread(target=self._run, args=(run,), daemon=True).start()

    def _run(self, run: Callable[[], Found]) -> None:
        try:
            self._future.set_result(run())
        except BaseException as error:
            self._future.set_exception(error)

    def result(self) -> Found:
        return self._future.result()
