"""Tenancy: members that a team may have, priorities that it may default to, and addresses that are some."""

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Final

from muster.model import names
from muster.model.clusters import Cluster
from muster.model.identities import AWS_PRINCIPAL
from muster.model.kai import QueueSettings
from muster.model.queues import Allowance, Department, Team
from muster.model.quotas import NOTHING, borrowing, quota, unnamed
from muster.model.regions import Provider
from muster.model.stack import GangMode, Stack
from muster.model.tenancy import DEFAULT_GRACE, Access, Namespaces, TenancyMode, Volume
from muster.model.violations import Violation, at, suggestion
from muster.validation.identities import bad_object_name, explicit_keys, team_path

# Pools that no team has quota of, and teams that have none: work that names them waits for ever, in
# silence. Warnings, because a stack may be on its way: a pool for a team that comes later.


def unowned_rules(stack: Stack) -> list[Violation]:
    """Every pool without a quota, and every team without any. Quotas in the schedulers' own keys (`kueue:`,
    `kai:`) are not judged.
    """
    owners: list[Team | Department] = [team for _, team in stack.teams()]
    owners += [department for _, department in stack.walk()]
    if any(owner.kueue.resource_groups or owner.kai != QueueSettings() for owner in owners):
        return []
    return [*_pools(stack), *_teams(stack)]


def _pools(stack: Stack) -> Iterator[Violation]:
    holders = [department.allowance for _, department in stack.walk()]
    holders += [team.allowance for _, team in stack.teams()]
    for pool in stack.pools:
        if holders and pool.is_gpu and not any(pool.name in each.quota for each in holders):
            message = "no team and no department has quota of it, so no work ever starts there."
            fix = f"give a team some, `quota: {{{pool.name}: {pool.max_gpus}}}`, or remove the pool."
            yield Violation(f"muster:pools.{pool.name}", message, fix, level="warning")


def _teams(stack: Stack) -> Iterator[Violation]:
    rest = unnamed(stack)
    gpus = [pool for pool in stack.pools if pool.is_gpu]
    for chain, team in stack.owners():
        fix = "write `quota:` with an amount of a pool: `quota: {POOL: 4}`."
        if gpus:
            fix = fix.replace("POOL", gpus[0].name)
        quotas = [quota(rest, team.allowance, pool, weight=team.weight) for pool in stack.pools]
        if all(each in (None, NOTHING) for each in quotas):
            idle = any(borrowing(pool, team.allowance, is_team=True) != NOTHING for pool in stack.pools)
            effect = "its work starts only on what others leave idle" if idle else "none of its work starts"
            message = f"has no quota of any pool, and the quotas of others leave nothing: {effect}."
            yield Violation(team_path(chain, team), message, fix, level="warning")
        elif gpus and team.allowance == Allowance() and not team.priorities:
            message = (
                "has no quota of a pool with GPUs: it gets a share of the CPU pools and runs CPU work alone."
            )
            yield Violation(team_path(chain, team), message, fix, level="warning")


# Priorities: those that teams name must exist, and no two may be the same.


def priority_rules(stack: Stack) -> list[Violation]:
    return [*_values(stack), *_allowed(stack)]


def _values(stack: Stack) -> Iterator[Violation]:
    seen: dict[int, str] = {}
    for priority in stack.priorities:
        path = f"muster:priorities.{priority.name}"
        yield from bad_object_name(path, priority.name, "priority")
        if priority.value in seen:
            message = f"has the value of {seen[priority.value]!r}: neither goes before the other."
            fix = "give each priority a value of its own."
            # The classes of a cluster that was taken over are what they are.
            is_theirs = stack.tenancy.namespaces is Namespaces.EXISTING
            yield Violation(path, message, fix, level="warning" if is_theirs else "error")
        seen.setdefault(priority.value, priority.name)


def _allowed(stack: Stack) -> Iterator[Violation]:
    known = [priority.name for priority in stack.priorities]
    for chain, team in stack.teams():
        for index, name in enumerate(team.priorities):
            path = at(team_path(chain, team), "priorities", index)
            if name not in known:
                yield Violation(
                    path, f"priority {name!r} is unknown.", suggestion(name, known, noun="priority")
                )
            elif name in team.priorities[:index]:
                yield Violation(path, f"priority {name!r} is listed twice.", "list it once.")


# Classes of disks, which one node mounts at a time.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/create-storage-class.html;
# https://github.com/kubernetes-sigs/aws-ebs-csi-driver, charts/aws-ebs-csi-driver/templates at v1.64.0;
# https://cloud.google.com/kubernetes-engine/docs/concepts/persistent-volumes, read 2026-11-27
_DISK_CLASSES: Final = {
    Provider.GKE: ("premium-rwo", "standard", "standard-rwo"),
    Provider.EKS: (names.AUTO_MODE_CLASS, "auto-ebs-sc", "ebs-csi-default-sc", "gp2", "gp3"),
}
_FILE_STORES: Final = {
    Provider.GKE: "of Filestore or Lustre",
    Provider.EKS: "of EFS or FSx for Lustre (`muster:cluster.storage.drivers` installs their drivers)",
}


def tenancy_rules(stack: Stack) -> list[Violation]:
    return [
        *_members(stack),
        *_priorities(stack),
        *_reach(stack),
        *_grace(stack),
        *_existing_namespaces(stack),
        *_volumes(stack),
        *_network_probe(stack),
    ]


def _existing_namespaces(stack: Stack) -> Iterator[Violation]:
    """What Muster cannot promise in namespaces that it does not make."""
    if stack.tenancy.namespaces is Namespaces.MANAGED:
        return
    path = "muster:tenancy.namespaces"
    if stack.tenancy.mode is not TenancyMode.OFF:
        message = "Muster's policies find a team by labels of its namespace, which others make here."
        yield Violation(path, message, "write `mode: off` beside it, or `namespaces: managed`.")
    if stack.tenancy.capabilities:
        message = "the namespaces' owner says there which capabilities a pod may add."
        yield Violation("muster:tenancy.capabilities", message, "remove it, or write `namespaces: managed`.")
    if stack.gang_admission.mode is GangMode.MUSTER:
        message = "Muster's gang admission finds a team by labels of its namespace, which others make here."
        fix = "write `muster:gangAdmission: off` or `builtin`, or `namespaces: managed`."
        yield Violation(path, message, fix)
    for chain, team in stack.teams():
        for key in explicit_keys(team.access, Access()):
            message = "needs a namespace that Muster makes, and `muster:tenancy.namespaces` is existing."
            yield Violation(at(team_path(chain, team), key), message, "remove it.")


def _network_probe(stack: Stack) -> Iterator[Violation]:
    if stack.tenancy.network_probe and stack.gang_admission.mode is not GangMode.MUSTER:
        message = "its two pods have the image of Muster's controller, which this stack does not install."
        fix = "remove it, or write `muster:gangAdmission: {mode: muster}`."
        yield Violation("muster:tenancy.networkProbe", message, fix)


def _volumes(stack: Stack) -> Iterator[Violation]:
    """Were its namespace the first of the list, another order would delete a volume and make an empty one."""
    for chain, team in stack.teams():
        for volume in team.access.volumes:
            path = at(team_path(chain, team), "volumes", volume.name)
            if volume.namespace is None and team.further_namespaces:
                message = "the team has several namespaces, and the volume names none."
                yield Violation(path, message, f"write the one that has it: namespace: {team.namespace}.")
            elif volume.namespace is not None and volume.namespace not in team.namespaces:
                message = f"{volume.namespace!r} is no namespace of the team."
                fix = suggestion(volume.namespace, team.namespaces, noun="namespace")
                yield Violation(at(path, "namespace"), message, fix)
            yield from _mounted_at_once(volume, stack.cluster, path)


def _mounted_at_once(volume: Volume, cluster: Cluster, path: str) -> Iterator[Violation]:
    """A shared volume of a class that makes disks never gets one. `shared` has no other default there: an
    unshared volume would stop a gang on its second node, where this answer comes before anything is made.
    """
    if not volume.shared or volume.volume is not None or not cluster.is_ours:
        return
    name = volume.storage_class
    if name is None and cluster.has_default_class:
        message = "several nodes are to mount it at once, and the cluster's default StorageClass makes disks"
    elif name in _DISK_CLASSES[cluster.provider]:
        message = f"several nodes are to mount it at once, and StorageClass {name} makes disks"
    else:
        return
    fix = (
        f"name a class that can, {_FILE_STORES[cluster.provider]}: `storageClass: NAME`. For one node at a "
        "time write `shared: false`."
    )
    yield Violation(path, f"{message}, of which each is for one node.", fix)


def _members(stack: Stack) -> Iterator[Violation]:
    for chain, team in stack.teams():
        for index, member in enumerate(team.access.members):
            path = at(team_path(chain, team), "members", index)
            if member.removeprefix("user:").startswith("system:"):
                message = f"{member!r} is the cluster's own: names that begin with system: are no people."
                yield Violation(path, message, "name a group of your identity provider.")
            elif member.startswith(AWS_PRINCIPAL) and stack.cluster.provider is Provider.GKE:
                message = f"{member!r} is a principal of AWS, which a GKE cluster does not know."
                yield Violation(path, message, "name a Google group: team@example.com.")
            elif "@" not in member and stack.cluster.provider is Provider.GKE:
                message = f"{member!r} is no e-mail address, and GKE knows users and groups by theirs."
                fix = "name a Google group: team@example.com."
                yield Violation(path, message, fix, level="warning")


def _priorities(stack: Stack) -> Iterator[Violation]:
    known = [priority.name for priority in stack.priorities]
    default = stack.tenancy.default_priority
    if default is not None and default not in known:
        fix = suggestion(default, known, noun="priority")
        yield Violation("muster:tenancy.defaultPriority", f"priority {default!r} is unknown.", fix)
    for chain, team in stack.teams():
        wanted, allowed = team.access.default_priority, team.priorities or tuple(known)
        if wanted is not None and wanted not in allowed:
            path = at(team_path(chain, team), "defaultPriority")
            message = f"priority {wanted!r} is not one that the team may use."
            yield Violation(path, message, suggestion(wanted, allowed, noun="priority"))


def _reach(stack: Stack) -> Iterator[Violation]:
    for index, block in enumerate(stack.tenancy.reach):
        try:
            ip_network(block)
        except ValueError as error:
            path = at("muster:tenancy", "reach", index)
            yield Violation(path, f"{block!r} is no address range: {error}.", "write one like 10.20.0.0/16.")


def _grace(stack: Stack) -> Iterator[Violation]:
    """The policies read what a template names, and most name nothing."""
    if stack.tenancy.termination_grace < DEFAULT_GRACE:
        message = f"pods that name no grace period have Kubernetes' {DEFAULT_GRACE} s, which is more."
        yield Violation("muster:tenancy.terminationGrace", message, f"write {DEFAULT_GRACE}s or more.")
