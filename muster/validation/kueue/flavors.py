"""Flavors and topologies: labels, taints, tolerations, levels, and what provisioning cannot do with them."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from muster.model import names
from muster.model.kueue import Effect, Flavor, Operator, PoolOptions, Taint, Toleration, Topology
from muster.model.node_labels import MOST_FLAVOR_LABELS, cloud_labels
from muster.model.pools import Capacity, Pool
from muster.model.regions import Provider
from muster.model.stack import GangMode, Stack
from muster.model.violations import Violation, at, suggestion
from muster.validation.kueue.object_names import pool_path

# The CRD's limits.
MOST_LABELS: Final = MOST_FLAVOR_LABELS
MOST_LEVELS: Final = 16
_HOSTNAME: Final = "kubernetes.io/hostname"
# A qualified name: an optional DNS prefix, and a name (apimachinery/pkg/util/validation).
QUALIFIED_NAME: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z"
)
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")


def flavor_rules(stack: Stack) -> list[Violation]:
    found = [violation for each in stack.kueue.topologies for violation in _topology(each)]
    for pool in stack.pools:
        path, said = pool_path(pool), pool.kueue
        if said.exact:
            found += [*_exact(stack, pool, path), *_written(stack, path, said)]
            continue
        labels, own = pool.machine.labels, {names.POOL_LABEL: pool.name, **pool.machine.labels}
        found += _labels(at("muster:pools", pool.name, "node", "labels"), labels, taken=[names.POOL_LABEL])
        found += _labels(at(path, "nodeLabels"), said.node_labels, taken=own)
        found += _of_the_cloud(at(path, "nodeLabels"), said.node_labels, cloud_labels(pool, stack))
        found += _taints(path, said.node_taints, brought=pool.device if pool.is_gpu else "")
        brought = 1 if pool.provisioning_class == names.GKE_QUEUED_CLASS else 0
        found += _tolerations(path, said.tolerations, is_gpu=pool.is_gpu, brought=brought)
        found += _topology_of(stack, path, said.topology, labels={**own, **said.node_labels})
        if said.topology is not None and pool.capacity is Capacity.QUEUED:
            found += _topology_with_provisioning(stack, path)
    for flavor in stack.kueue.flavors:
        found += _written(stack, at("muster:kueue", "flavors", flavor.name), flavor)
    return found


def _written(stack: Stack, path: str, flavor: Flavor | PoolOptions) -> Iterator[Violation]:
    """A flavor that has what is written and nothing of a pool's own."""
    yield from _labels(at(path, "nodeLabels"), flavor.node_labels, taken=())
    yield from _taints(path, flavor.node_taints)
    yield from _tolerations(path, flavor.tolerations, is_gpu=False)
    yield from _topology_of(stack, path, flavor.topology, labels=flavor.node_labels)


def _exact(stack: Stack, pool: Pool, path: str) -> Iterator[Violation]:
    """Nodes of the clouds get the pool's label, and Muster's gang admission finds a pool's nodes by it."""
    place = at(path, "exact")
    if stack.cluster.provider is not Provider.EXISTING:
        message = f"is for nodes that others label; on {stack.cluster.provider} Muster makes them."
        yield Violation(place, message, "remove it.")
    elif stack.gang_admission.mode is GangMode.MUSTER:
        message = f"leaves out the label {names.POOL_LABEL}, by which Muster's gang admission finds nodes."
        yield Violation(place, message, "remove it, or write `muster:gangAdmission: off` or `builtin`.")
    if pool.machine.labels:
        message = "is `nodeLabels` alone, and the pool has `node.labels` as well."
        yield Violation(place, message, "move them to `kueue.nodeLabels`.")


def _topology_with_provisioning(stack: Stack, path: str) -> Iterator[Violation]:
    """Kueue assigns a topology before nodes exist, unless the flavor has Kueue's own provisioning check.
    Only for that check is there a second pass (pkg/scheduler/flavorassigner/tas_flavorassigner.go).
    """
    if stack.gang_admission.mode is GangMode.MUSTER:
        message = (
            "a queued pool has no nodes when Kueue looks for the topology, so nothing would be admitted."
        )
        fix = "remove it, write `muster:gangAdmission: builtin`, or use another capacity."
        yield Violation(at(path, "topology"), message, fix)


def _topology_of(
    stack: Stack, path: str, topology: str | None, *, labels: Mapping[str, str]
) -> Iterator[Violation]:
    known = [each.name for each in stack.kueue.topologies]
    if topology is None:
        return
    if topology not in known:
        fix = suggestion(topology, known, noun="topology under `muster:kueue`")
        yield Violation(at(path, "topology"), f"topology {topology!r} is unknown.", fix)
    if not labels:
        message = "a flavor with a topology needs a node label that selects its nodes."
        yield Violation(at(path, "topology"), message, "write `nodeLabels`.")


def _topology(topology: Topology) -> Iterator[Violation]:
    path = at("muster:kueue", "topologies", topology.name)
    if not 1 <= len(topology.levels) <= MOST_LEVELS:
        message = f"has {len(topology.levels)} levels; Kueue takes 1 to {MOST_LEVELS}."
        yield Violation(path, message, "list node labels from the widest level to the narrowest.")
    for index, label in enumerate(topology.levels):
        place = at(path, index)
        if not QUALIFIED_NAME.match(label):
            yield Violation(place, f"{label!r} cannot be a node label.", "write it like example.com/rack.")
        if label in topology.levels[:index]:
            yield Violation(place, f"level {label!r} is listed twice.", "list it once.")
        if label == _HOSTNAME and index != len(topology.levels) - 1:
            yield Violation(place, "a node is the narrowest level there is.", f"put {_HOSTNAME} last.")


def _labels(place: str, labels: Mapping[str, str], *, taken: Collection[str]) -> Iterator[Violation]:
    for key, value in labels.items():
        if not QUALIFIED_NAME.match(key) or not _VALUE.match(value):
            yield Violation(
                at(place, key), f"{key}={value} cannot be a label.", "write it like example.com/a: b."
            )
        if key in taken and key == names.POOL_LABEL:
            message = "is the label by which Muster distinguishes its pools."
            yield Violation(at(place, key), message, "remove it; the flavor has the pool's name already.")
        elif key in taken:
            message = "is one of the pool's `node.labels` already."
            yield Violation(at(place, key), message, "write it once.")
    if labels and len({*taken, *labels}) > MOST_LABELS:
        message = f"has {len({*taken, *labels})} labels, the pool's own included; Kueue takes {MOST_LABELS}."
        yield Violation(place, message, "keep those that distinguish the nodes from others.")


def _of_the_cloud(place: str, labels: Mapping[str, str], clouds: Mapping[str, str]) -> Iterator[Violation]:
    for key, value in labels.items():
        if clouds.get(key, value) != value:
            message = f"{value!r} is not what the nodes of the pool have: they have {clouds[key]!r}."
            yield Violation(at(place, key), message, "remove it; the flavor has the label by itself.")


def _taints(path: str, taints: tuple[Taint, ...], *, brought: str = "") -> Iterator[Violation]:
    place = at(path, "nodeTaints")
    seen = {(brought, Effect.NO_SCHEDULE)} if brought else set()
    if len(taints) + len(seen) > MOST_LABELS:
        message = f"has {len(taints) + len(seen)} taints, the GPU's own included; Kueue takes {MOST_LABELS}."
        yield Violation(place, message, "keep fewer.")
    for index, taint in enumerate(taints):
        if not QUALIFIED_NAME.match(taint.key) or not _VALUE.match(taint.value):
            yield Violation(at(place, index), f"{taint.key}={taint.value} cannot be a taint.", "correct it.")
        if (taint.key, taint.effect) in seen:
            message = f"the taint {taint.key}:{taint.effect} exists already."
            yield Violation(at(place, index), message, "keep one of the two.")
        seen.add((taint.key, taint.effect))


def _tolerations(
    path: str, tolerations: Iterable[Toleration], *, is_gpu: bool, brought: int = 0
) -> Iterator[Violation]:
    place, listed = at(path, "tolerations"), list(tolerations)
    if len(listed) + brought > MOST_LABELS:
        message = f"has {len(listed) + brought}, the pool's own included; Kueue takes {MOST_LABELS}."
        yield Violation(place, message, "keep fewer.")
    for index, each in enumerate(listed):
        where = at(place, index)
        if not each.key and each.operator is not Operator.EXISTS:
            yield Violation(
                where, "a toleration without a key tolerates all taints.", "write `operator: Exists`."
            )
        if each.operator is Operator.EXISTS and each.value:
            yield Violation(
                where, "Exists does not compare the value.", "remove `value`, or write `operator: Equal`."
            )
        if each.seconds is not None and each.effect is not Effect.NO_EXECUTE:
            yield Violation(
                where, "seconds belong to NoExecute.", "write `effect: NoExecute`, or remove them."
            )
        if is_gpu and _tolerates_gpus(each):
            message = (
                "a flavor that tolerates its GPU taint takes in CPU pods as soon as the CPU pools are full."
            )
            yield Violation(where, message, "remove it; GPU pods have the toleration in their template.")


def _tolerates_gpus(toleration: Toleration) -> bool:
    if toleration.effect not in (None, Effect.NO_SCHEDULE):
        return False
    if toleration.operator is Operator.EXISTS:
        return toleration.key in ("", *names.DEVICE_RESOURCES)
    return toleration.key in names.DEVICE_RESOURCES and toleration.value == names.GPU_TAINT_VALUE
