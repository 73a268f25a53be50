"""Flavors, topologies and AdmissionChecks: labels, taints, tolerations, levels, what provisioning cannot do
with them, and that checks exist, fit together and are configured where they are used.

Before them the names of Kueue's objects: that Kubernetes takes them, and that no two objects of a kind share
one.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from muster.model import names
from muster.model.kueue import (
    AdmissionCheck,
    Effect,
    Flavor,
    Operator,
    PoolOptions,
    Provisioning,
    Taint,
    Toleration,
    Topology,
)
from muster.model.kueue.tree import TreeBuilder
from muster.model.names import LABEL_VALUE, QUALIFIED_NAME
from muster.model.node_labels import MOST_FLAVOR_LABELS, cloud_labels
from muster.model.pools import Capacity, Pool
from muster.model.queues import Department, Team
from muster.model.regions import Provider
from muster.model.stack import GangMode, Stack
from muster.model.tenancy import Namespaces
from muster.model.violations import Violation, at, suggestion
from muster.render.kueue.cluster import builtin_config, builtin_name, capacity_checks, strategy
from muster.render.kueue.queues import local_queues
from muster.validation.identities import bad_name, bad_object_name, department_path, is_dns_label, team_path

# Config paths of `kueue:` sections.


def pool_path(pool: Pool, *parts: str | int) -> str:
    return at("muster:pools", pool.name, "kueue", *parts)


def cohort_path(chain: tuple[Department, ...], *parts: str | int) -> str:
    return at(department_path(chain), "kueue", *parts)


def queue_path(chain: tuple[Department, ...], team: Team, *parts: str | int) -> str:
    return at(team_path(chain, team), "kueue", *parts)


def check_path(check: AdmissionCheck, *parts: str | int) -> str:
    return at("muster:kueue", "admissionChecks", check.name, *parts)


# Of objects that no label names.
_LONGEST: Final = 253

_Title = tuple[str, str, bool]
"""A name, the config path where it is written, and whether it is written as the object's: otherwise it is
that of a pool, a team or a department, which other rules judge.
"""


def object_name_rules(stack: Stack) -> list[Violation]:
    """Names of ResourceFlavors, Topologies, Cohorts, ClusterQueues, LocalQueues and AdmissionChecks."""
    kinds = {
        "ResourceFlavor": [*_flavors(stack)],
        "Topology": [
            (each.name, at("muster:kueue", "topologies", each.name), True) for each in stack.kueue.topologies
        ],
        "Cohort": [*_cohorts(stack)],
        "ClusterQueue": [*_queues(stack)],
        "AdmissionCheck": [*_named_checks(stack)],
    }
    found = [violation for kind, titles in kinds.items() for violation in _kind(kind, titles)]
    return [*found, *_local_queues(stack)]


def _kind(kind: str, titles: Iterable[_Title]) -> Iterator[Violation]:
    seen: dict[str, str] = {}
    for name, path, is_own in titles:
        if is_own:
            yield from bad_object_name(path, name, kind, longest=_LONGEST)
        if name in seen:
            yield Violation(path, f"the {kind} {name!r} is also {seen[name]}'s.", "give one another name.")
        seen.setdefault(name, path)


def _flavors(stack: Stack) -> Iterator[_Title]:
    for pool in stack.pools:
        is_own = bool(pool.kueue.flavor)
        yield pool.flavor, pool_path(pool, "flavor") if is_own else f"muster:pools.{pool.name}", is_own
    for flavor in stack.kueue.flavors:
        yield flavor.name, at("muster:kueue", "flavors", flavor.name), True


def _cohorts(stack: Stack) -> Iterator[_Title]:
    for above, department in stack.walk():
        if department.kueue.exists:
            chain, name = (*above, department), department.kueue.name
            yield name or department.name, cohort_path(chain, "cohort"), bool(name)


def _queues(stack: Stack) -> Iterator[_Title]:
    for chain, team in stack.owners():
        name = team.kueue.cluster_queue
        yield name or team.name, queue_path(chain, team, "clusterQueue"), bool(name)


def _named_checks(stack: Stack) -> Iterator[_Title]:
    if stack.gang_admission.mode is GangMode.MUSTER and stack.gang_pools:
        yield names.ADMISSION_CHECK, "muster:gangAdmission", False
    for check in stack.kueue.admission_checks:
        yield check.name, check_path(check), True


def _local_queues(stack: Stack) -> Iterator[Violation]:
    for chain, team in stack.teams():
        for queue in team.kueue.local_queues:
            path = at(queue_path(chain, team, "localQueues"), queue.name)
            yield from bad_object_name(path, queue.name, "LocalQueue")
            for index, namespace in enumerate(queue.namespaces or ()):
                yield from bad_name(at(path, "namespaces", index), namespace, "namespace")
            if queue.namespaces is not None and stack.tenancy.namespaces is Namespaces.MANAGED:
                message = "a team's queues are in its own namespace, which Muster makes and guards."
                fix = "remove it, or write `muster:tenancy: {mode: off, namespaces: existing}`."
                yield Violation(at(path, "namespaces"), message, fix)
    if stack.tenancy.namespaces is Namespaces.EXISTING:
        yield from _same_place(stack)


def _same_place(stack: Stack) -> Iterator[Violation]:
    """With namespaces of others, teams may share one: two LocalQueues of it need two names."""
    seen: dict[tuple[str, str], str] = {}
    for chain, team in stack.teams():
        for namespace, name in local_queues(team, team):
            path = queue_path(chain, team, "localQueues", name)
            if (namespace, name) in seen:
                message = (
                    f"namespace {namespace} has a LocalQueue {name!r} already, {seen[namespace, name]}'s."
                )
                yield Violation(path, message, "give one of the two another name.")
            seen.setdefault((namespace, name), team.name)


# The CRD's limits.
MOST_LABELS: Final = MOST_FLAVOR_LABELS
MOST_LEVELS: Final = 16
_HOSTNAME: Final = "kubernetes.io/hostname"


def flavor_rules(stack: Stack) -> list[Violation]:
    found = [violation for each in stack.kueue.topologies for violation in _topology(each)]
    for pool in stack.pools:
        path, said = pool_path(pool), pool.kueue
        if said.exact:
            found += [*_exact(stack, pool, path), *_exact_flavor(stack, path, said)]
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
        found += _exact_flavor(stack, at("muster:kueue", "flavors", flavor.name), flavor)
    return found


def _exact_flavor(stack: Stack, path: str, flavor: Flavor | PoolOptions) -> Iterator[Violation]:
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
        if not QUALIFIED_NAME.match(key) or not LABEL_VALUE.match(value):
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
        if not QUALIFIED_NAME.match(taint.key) or not LABEL_VALUE.match(taint.value):
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


# Kueue's limit of checks on one workload (Workload.status.admissionChecks).
MOST_CHECKS: Final = 8
_Chain = tuple[Department, ...]


def check_rules(stack: Stack) -> list[Violation]:
    builder = TreeBuilder(stack)
    found = [*_checks(stack), *_configs(stack), *_pools(stack), *_shared(stack)]
    # A team that names no check has the capacity checks of its pools, which are few: nothing to count.
    is_bounded = len(capacity_checks(stack)) <= MOST_CHECKS
    for chain, team in stack.owners():
        if team.kueue.admission_checks or not is_bounded:
            found += _team(stack, builder, chain, team)
    return found


def _checks(stack: Stack) -> Iterator[Violation]:
    capacity = capacity_checks(stack)
    for check in stack.kueue.admission_checks:
        path = check_path(check)
        if check.controller_name == names.CONTROLLER_NAME or _is_of_pools(stack, check):
            message = "is a check of capacity, which queued pools bring with them."
            yield Violation(at(path, "controllerName"), message, "remove it; see `muster:gangAdmission`.")
        elif "/" not in check.controller_name:
            message = f"{check.controller_name!r} names no domain."
            yield Violation(at(path, "controllerName"), message, "write it like example.com/my-check.")
        if check.name in capacity and stack.gang_admission.mode is GangMode.BUILTIN:
            yield Violation(path, "is the name of a queued pool's check.", "give it another name.")
        if check.parameters is not None and not is_dns_label(check.parameters.name):
            message = f"{check.parameters.name!r} cannot be the name of a check's parameters."
            yield Violation(at(path, "parameters", "name"), message, "use at most 63 of a-z, 0-9 and -.")


def _is_of_pools(stack: Stack, check: AdmissionCheck) -> bool:
    """Whether it is Kueue's own check without a configuration of the stack's."""
    configs = {config.name for config in stack.kueue.request_configs}
    is_builtin = check.controller_name == names.BUILTIN_CONTROLLER_NAME
    return is_builtin and (check.parameters is None or check.parameters.name not in configs)


def _configs(stack: Stack) -> Iterator[Violation]:
    """Names of ProvisioningRequestConfigs, against those that queued pools bring."""
    brought: dict[str, Pool] = {}
    if stack.gang_admission.mode is GangMode.BUILTIN:
        brought = {builtin_config(stack, pool)["metadata"]["name"]: pool for pool in stack.queued_pools}
    for config in stack.kueue.request_configs:
        path = at("muster:kueue", "provisioningRequestConfigs", config.name)
        yield from bad_object_name(path, config.name, "ProvisioningRequestConfig", longest=253)
        if config.name in brought:
            message = f"is the name of pool {brought[config.name].name}'s own."
            yield Violation(path, message, "give one of the two another name.")


def _pools(stack: Stack) -> Iterator[Violation]:
    for pool in stack.pools:
        said, path = pool.kueue.provisioning, pool_path(pool, "provisioning")
        if said == Provisioning():
            continue
        if pool.capacity is not Capacity.QUEUED:
            yield Violation(path, "is for the requests of a queued pool.", "remove it, or queue the pool.")
        elif stack.gang_admission.mode is not GangMode.BUILTIN:
            message = f"is for Kueue's own check, and gangAdmission is {stack.gang_admission.mode}."
            yield Violation(path, message, "remove it, or write `muster:gangAdmission: builtin`.")
        for key, name in (("check", said.check), ("config", said.config)):
            if name is not None and not is_dns_label(name):
                fix = "use at most 63 of a-z, 0-9 and -."
                yield Violation(at(path, key), f"{name!r} cannot be its name.", fix)
        if said.node_selector is not None and len(said.node_selector) > 8:
            yield Violation(at(path, "nodeSelector"), "Kueue takes 8 labels.", "keep those that are needed.")


def _shared(stack: Stack) -> Iterator[Violation]:
    """Pools of one check share one request configuration."""
    if stack.gang_admission.mode is not GangMode.BUILTIN:
        return
    first: dict[str, Pool] = {}
    configs: dict[str, Pool] = {}
    for pool in stack.queued_pools:
        mine = builtin_config(stack, pool)
        for seen, name in ((first, builtin_name(pool)), (configs, mine["metadata"]["name"])):
            other = seen.setdefault(name, pool)
            if builtin_config(stack, other) != mine:
                message = f"{name!r} is {other.name}'s too, and the two want different requests."
                fix = "give them checks and configs of different names, or the same class and settings."
                yield Violation(pool_path(pool, "provisioning"), message, fix)
                break


def _team(stack: Stack, builder: TreeBuilder, chain: _Chain, team: Team) -> Iterator[Violation]:
    path = queue_path(chain, team, "admissionChecks")
    known = {check.name: check for check in stack.kueue.admission_checks}
    flavors = [flavor.name for flavor in builder.team(chain[-1], team).flavors]
    rules = strategy(stack, flavors, team.kueue.admission_checks)
    queued = [rule.name for rule in rules if rule.name not in known]
    if len(rules) > MOST_CHECKS:
        message = f"a workload of this queue has up to {len(rules)} checks; Kueue takes {MOST_CHECKS}."
        yield Violation(path, message, "use fewer.")
    many = [use.name for use in team.kueue.admission_checks if _is_multi(stack, use.name)]
    for use in team.kueue.admission_checks:
        place = at(path, use.name)
        if use.name not in known:
            fix = suggestion(use.name, known, noun="check under `muster:kueue`")
            yield Violation(place, f"check {use.name!r} is unknown.", fix)
        for index, name in enumerate(use.pools):
            pool = stack.pool(name)
            if (pool.flavor if pool else name) not in flavors:
                mine = [each.name for each in stack.pools if each.flavor in flavors]
                message = f"{name!r} is no pool of this queue."
                yield Violation(at(place, index), message, suggestion(name, mine, noun="quota of a pool"))
    for name in many:
        yield from _multi_kueue(at(path, name), team, name, many=many, queued=queued)


def _is_multi(stack: Stack, name: str) -> bool:
    return any(
        check.name == name and check.controller_name == names.MULTI_KUEUE
        for check in stack.kueue.admission_checks
    )


def _multi_kueue(
    path: str, team: Team, name: str, *, many: list[str], queued: list[str]
) -> Iterator[Violation]:
    """Kueue leaves such a queue inactive (pkg/cache/scheduler/clusterqueue.go, updateQueueStatus)."""
    if queued:
        message = "MultiKueue sends work away, and a queued pool buys nodes here: Kueue takes one of the two."
        yield Violation(path, message, "give the team no quota of a queued pool, or remove the check.")
    if len(many) > 1:
        yield Violation(path, "a queue takes one MultiKueue check.", "keep one.")
    if any(use.pools for use in team.kueue.admission_checks if use.name == name):
        yield Violation(path, "a MultiKueue check judges every flavor.", f"write `{name}: all`.")
