"""Teams that use another team's queue: its owner is of their department, and sets what is the queue's."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final

from muster.model.clusters import Cluster
from muster.model.gpu_operator import GpuStack, gpu_stack
from muster.model.kueue import QueueOptions
from muster.model.pools import MIG_PROFILES, MOST_SHARES, NOT_ISOLATED, Image, Pool, Sharing
from muster.model.queues import Allowance, Department, Team
from muster.model.stack import Stack
from muster.model.violations import Violation, at, suggestion
from muster.validation.identities import explicit_keys, team_path

# GPU sharing: what a GPU can be divided into, and where the node can be configured for it.

_OFF = "remove `sharing`, or write `sharing: none`."


def sharing_rules(stack: Stack) -> list[Violation]:
    return [found for pool in stack.pools for found in _pool(pool, stack.cluster)]


def _pool(pool: Pool, cluster: Cluster) -> Iterator[Violation]:
    path = f"muster:pools.{pool.name}"
    kind = pool.sharing.kind
    if kind is Sharing.NONE:
        if pool.sharing.shares != 1 or pool.sharing.profile:
            yield Violation(
                f"{path}.sharing", "is missing, but the number or profile of shares is written.", "write it."
            )
        return
    if not pool.is_gpu:
        yield Violation(f"{path}.sharing", "the pool has no GPU to share.", _OFF)
        return
    if not pool.is_nvidia:
        message = f"{pool.devices} cannot be shared: Muster shares NVIDIA's GPUs alone."
        yield Violation(f"{path}.sharing", message, _OFF)
        return
    yield from _mig(pool, path) if kind is Sharing.MIG else _shares(pool, path)
    yield from _reachable(pool, cluster, path)
    if kind in NOT_ISOLATED:
        fix = "use it for work of one team that trusts itself; `mig` isolates, where the GPU has it."
        yield Violation(f"{path}.sharing", NOT_ISOLATED[kind], fix, "warning")


def _shares(pool: Pool, path: str) -> Iterator[Violation]:
    if pool.sharing.profile is not None:
        yield Violation(f"{path}.migProfile", f"means nothing with {pool.sharing.kind}.", "remove it.")
    if not 2 <= pool.sharing.shares <= MOST_SHARES:
        message = f"is {pool.sharing.shares}; a shared GPU serves 2 to {MOST_SHARES} pods."
        yield Violation(f"{path}.shares", message, "write how many, such as 4.")


def _mig(pool: Pool, path: str) -> Iterator[Violation]:
    accelerator = pool.accelerator.name if pool.accelerator else ""
    profiles = MIG_PROFILES.get(accelerator)
    if profiles is None:
        message = f"{accelerator} cannot be cut into instances."
        yield Violation(f"{path}.sharing", message, f"use one of: {', '.join(sorted(MIG_PROFILES))}.")
    elif pool.sharing.profile not in profiles:
        message = f"{pool.sharing.profile or 'nothing'!r} is no profile of {accelerator}."
        fix = suggestion(pool.sharing.profile or "", profiles, noun="profile")
        yield Violation(f"{path}.migProfile", message, fix)


def _reachable(pool: Pool, cluster: Cluster, path: str) -> Iterator[Violation]:
    """The component that advertises the GPUs has to be one that Muster configures."""
    if pool.image is Image.BOTTLEROCKET:
        message = (
            "Bottlerocket's own device plugin advertises its GPUs, and is set up in the node's user data."
        )
        yield Violation(f"{path}.sharing", message, "use `image: al2023` for shared GPUs.")
    if gpu_stack(cluster) is GpuStack.OCI_MANAGED:
        message = "OKE's add-on NvidiaGpuPlugin advertises these GPUs, and Muster does not configure it."
        fix = "remove `sharing`, or remove the add-on, use nodes without a driver and write `cloud: other`."
        yield Violation(f"{path}.sharing", message, fix)
    if cluster.has_driver_installer and pool.sharing.kind is Sharing.MIG:
        message = "on GKE only GKE's own driver cuts GPUs into instances."
        yield Violation(f"{path}.sharing", message, "use `gpuDriver: default` for the cluster.")


_OF_A_QUEUE: Final = ("preemption", "queueing", "kai")


def shared_queue_rules(stack: Stack) -> list[Violation]:
    found: list[Violation] = []
    everybody = {team.name: (chain[-1], team) for chain, team in stack.teams()}
    for above, department in stack.walk():
        owners = {team.name for team in department.owners}
        for team in department.teams:
            if team.queue is not None:
                path = team_path((*above, department), team)
                found += [*_owner(everybody, team, at(path, "queue"), owners), *_settings(team, path)]
    return found


def _owner(
    everybody: Mapping[str, tuple[Department, Team]], team: Team, path: str, owners: set[str]
) -> Iterator[Violation]:
    """`owners`: the teams of its department that have a queue."""
    if team.queue in owners or team.queue is None:
        return
    if team.queue == team.name:
        yield Violation(path, "names the team itself.", "remove it: a team has a queue of its own.")
    elif team.queue not in everybody:
        fix = suggestion(team.queue, owners, noun="team with a queue")
        yield Violation(path, f"team {team.queue!r} is unknown.", fix)
    else:
        department, other = everybody[team.queue]
        if other.queue is not None:
            message = f"{other.name} has no queue of its own: its work is in {other.queue}'s."
            yield Violation(path, message, f"write `queue: {other.queue}`.")
        else:
            message = f"{other.name} is of department {department.name}, and so is the quota of its queue."
            fix = "move one of the two: the teams of a queue are of one department."
            yield Violation(path, message, fix)


def _settings(team: Team, path: str) -> Iterator[Violation]:
    """What belongs to a queue is written once, at its owner. Namespaces have LocalQueues of their own."""
    default = Team(name=team.name, namespace=team.namespace)
    keys = [
        each.name
        for each in fields(Allowance)
        if getattr(team.allowance, each.name) != getattr(default.allowance, each.name)
    ]
    keys += [key for key in _OF_A_QUEUE if getattr(team, key) != getattr(default, key)]
    known = QueueOptions(local_queues=team.kueue.local_queues)
    keys += [at("kueue", key) for key in explicit_keys(team.kueue, known)]
    for key in keys:
        message = f"is a setting of the queue, which is {team.queue}'s."
        fix = f"write it at team {team.queue}, or remove `queue: {team.queue}`."
        yield Violation(at(path, key), message, fix)
