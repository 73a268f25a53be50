"""AdmissionChecks: they exist, fit together, and provisioning is configured where it is used."""

from collections.abc import Iterator
from typing import Final

from muster.model import names
from muster.model.kueue import AdmissionCheck, Provisioning
from muster.model.kueue.tree import TreeBuilder
from muster.model.pools import Capacity, Pool
from muster.model.queues import Department, Team
from muster.model.stack import GangMode, Stack
from muster.model.violations import Violation, at, suggestion
from muster.render.kueue.cluster import builtin_config, builtin_name, capacity_checks, strategy
from muster.validation.identities import bad_object_name, is_dns_label
from muster.validation.kueue.object_names import check_path, pool_path, queue_path

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
