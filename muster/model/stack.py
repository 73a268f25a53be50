"""The stack: the typed description of one environment."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from types import MappingProxyType
from typing import TypeVar

from muster.model import names
from muster.model.capacity import Gangs
from muster.model.clusters import Cluster
from muster.model.gangpolicy import GangPolicy, IdleAction
from muster.model.kai import KaiSettings
from muster.model.keys import Seconds, declared
from muster.model.kueue import KueueOptions
from muster.model.observability import Budgets, Observability, RecordingSettings
from muster.model.pools import Capacity, Pool
from muster.model.priorities import Priority
from muster.model.programs import ChartSource, GpuOperatorOptions, ImageSource, Program, ProgramOptions
from muster.model.queues import Department, Team
from muster.model.ray import Ray
from muster.model.schedulers import Scheduler as Scheduler
from muster.model.tenancy import Tenancy, TenancyMode
from muster.model.work import FOR_MEMBERS, GATED, SERVED, WORK, Work, WorkKind


class ArtifactSource(StrEnum):
    """Where charts, manifests and images come from: what was built on this machine, or their registries."""

    LOCAL = "local"
    UPSTREAM = "upstream"


class VersionLevel(StrEnum):
    """How well the named versions are known. `run`: Muster's suites run them. `read`: their release notes
    were read, too (versions.py).
    """

    RUN = "run"
    READ = "read"


def retains_crds(artifacts: ArtifactSource) -> bool:
    """Whether CRDs stay when a stack is destroyed. Deleting a CRD deletes all objects of its kind, also those
    of other clients. On a local cluster, which belongs to the stack alone, CRDs are deleted.
    """
    return artifacts is ArtifactSource.UPSTREAM


class GangMode(StrEnum):
    """What provides a gang's capacity: Muster's controller, Kueue's own provisioning check, or nothing."""

    MUSTER = "muster"
    BUILTIN = "builtin"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class GangAdmission:
    """`policy` holds the stack's own settings; its flavors come from the pools (render.gang)."""

    mode: GangMode = GangMode.MUSTER
    policy: GangPolicy = field(default_factory=GangPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsReady:
    """What Kueue does with admitted work whose pods do not come up. Durations in seconds.

    `timeout` has to cover pulling an image of many gigabytes onto a new node. After it the work is evicted
    and retried, at most `retries` times, and then deactivated. Without a bound, a gang that can never start
    would take and release its quota for ever. `recovery` bounds how long running work may miss a pod (a lost
    node). It covers a replacement pod on an existing node; a gang cannot get another node from a request
    that is used up.
    """

    timeout: Seconds = declared("How long admitted work may take until its pods are ready.", Seconds(900))
    recovery: Seconds = declared("How long running work may miss a pod.", Seconds(300))
    retries: int = declared("How often such work is retried before it is deactivated.", 5, maximum=1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One environment. `pools` are sorted by Pool.order; equal ones stay in the order that is given.

    `versions`: program -> version, where it is not Muster's own choice. `version_level` None: what the
    stack's name asks for.
    """

    cluster: Cluster
    pools: tuple[Pool, ...]
    departments: tuple[Department, ...]
    priorities: tuple[Priority, ...] = declared(
        "Priorities of work, by name: a greater number may preempt a smaller one.",
        (),
        example={"prod": 1000, "dev": 100},
    )
    scheduler: Scheduler = declared("Who queues and admits.", Scheduler.KUEUE)
    gang_admission: GangAdmission = GangAdmission()
    pods_ready: PodsReady = declared("What happens to admitted work whose pods do not come up.", PodsReady())
    tenancy: Tenancy = declared("What tenants may do.", Tenancy(), example={"egress": "none"})
    artifacts: ArtifactSource = declared(
        "Where charts, manifests and images come from: this machine, or their registries.",
        ArtifactSource.UPSTREAM,
    )
    ray: Ray = declared("What Ray clusters have to be.", Ray())
    work: tuple[Work, ...] = declared(
        "Kinds of work that teams may submit. A cluster brings the controllers of jobset, lws and Kubeflow.",
        SERVED,
        noun="kind of work",
    )
    kueue: KueueOptions = declared("Settings of Kueue.", KueueOptions())
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    version_level: VersionLevel | None = None
    charts: ChartSource = field(default_factory=ChartSource)
    images: ImageSource = field(default_factory=ImageSource)
    kai: KaiSettings = declared("Settings of the KAI Scheduler.", KaiSettings())
    observability: Observability = declared("How Muster is watched.", Observability())
    recording: RecordingSettings = declared(
        "A recorder of the cluster's jobs, for replays.", RecordingSettings()
    )
    budgets: Budgets = declared("What teams may use in a month.", Budgets())
    kuberay: ProgramOptions = declared("The KubeRay operator.", ProgramOptions())
    gpu_operator: GpuOperatorOptions = declared("The GPU Operator.", GpuOperatorOptions())

    def __post_init__(self) -> None:
        object.__setattr__(self, "pools", tuple(sorted(self.pools, key=lambda pool: pool.order)))
        object.__setattr__(self, "priorities", tuple(sorted(self.priorities, reverse=True)))

    @property
    def cpu_pools(self) -> tuple[Pool, ...]:
        return tuple(pool for pool in self.pools if not pool.is_gpu)

    @property
    def queued_pools(self) -> tuple[Pool, ...]:
        return tuple(pool for pool in self.pools if pool.capacity is Capacity.QUEUED)

    @property
    def placeholder_pools(self) -> tuple[Pool, ...]:
        """Where gangs ask by placeholders: where the stack says so, and where nodes are made for pods that
        wait and no autoscaler answers a ProvisioningRequest.
        """
        if self.gang_admission.mode is not GangMode.MUSTER:
            return ()
        return tuple(pool for pool in self.pools if self._is_asked_by_placeholders(pool))

    @property
    def closes_nodes(self) -> bool:
        """Whether the controller may set broken nodes aside."""
        is_ours = self.gang_admission.mode is GangMode.MUSTER
        return is_ours and self.gang_admission.policy.broken_nodes.most > 0

    @property
    def stops_idle_gangs(self) -> bool:
        return any(team.idle and team.idle.action is IdleAction.SUSPEND for _, team in self.owners())

    def _is_asked_by_placeholders(self, pool: Pool) -> bool:
        if not pool.is_gpu or pool.slice_nodes > 1 or pool.capacity is Capacity.QUEUED:
            return False
        if pool.gangs is not None:
            return pool.gangs is Gangs.PLACEHOLDERS
        return self.cluster.makes_nodes_for_pods and not self.leaves_classes_to_pods

    @property
    def leaves_classes_to_pods(self) -> bool:
        """Whether nodes come for pods that select a ComputeClass, and no flavor adds that to them."""
        return self.cluster.has_compute_classes and not self.scheduler.traits.has_flavors

    @property
    def gang_pools(self) -> tuple[Pool, ...]:
        """Those whose capacity a gang gets whole, from Muster's check, before it starts."""
        asked = {pool.name for pool in (*self.queued_pools, *self.placeholder_pools)}
        return tuple(pool for pool in self.pools if pool.name in asked)

    @property
    def deletes_without_quota(self) -> bool:
        """Whether the controller deletes a team's pods with devices that outlive their quota: where tenants
        are held to their queues at all, and Kueue counts Workloads in place of pods.
        """
        return self.answers_checks and self.tenancy.mode is TenancyMode.ENFORCE

    @property
    def managed_resources(self) -> tuple[str, ...]:
        """What gangs request of queued pools: the policy's, and other accelerators than NVIDIA's GPUs."""
        named = self.gang_admission.policy.managed_resources
        others = (pool.device for pool in self.pools if pool.is_gpu and not pool.is_nvidia)
        return tuple(dict.fromkeys((*named, *others)))

    @property
    def uncounted_resources(self) -> tuple[str, ...]:
        """Prefixes of resources that Kueue admits without a quota, where Muster configures it. Interfaces and
        huge pages come with their nodes, and Kueue would never admit a job that requests what its queue does
        not cover.
        """
        fabric = (names.EFA_RESOURCE, "hugepages-") if any(pool.efa for pool in self.pools) else ()
        return tuple(dict.fromkeys((*self.kueue.exclude_resources, *fabric)))

    @property
    def work_kinds(self) -> tuple[WorkKind, ...]:
        """What members of teams may create."""
        return tuple(kind for kind in FOR_MEMBERS if kind.family in self.work)

    @property
    def gated_work(self) -> tuple[WorkKind, ...]:
        """Whose pods wait behind our gate beside those of Ray clusters."""
        families = {*self.work, *(kind.makes for kind in self.work_kinds)} if self.is_gated else ()
        return tuple(kind for kind in GATED if kind.family in families)

    @property
    def judged_work(self) -> tuple[WorkKind, ...]:
        """Kinds that the policies judge as work, also those that are not served, because a member could run
        them beside every queue. A Deployment or a StatefulSet is work only where it is served.
        """
        return tuple(kind for kind in WORK if not kind.elective or kind.family in self.work)

    @property
    def makes_compute_domains(self) -> bool:
        """Whether each gang that claims a channel of a ComputeDomain gets a domain from our controller: where
        Kueue admits such claims.
        """
        return self.answers_checks and names.CHANNEL_DEVICE_CLASS in self.kueue.device_classes

    @property
    def answers_checks(self) -> bool:
        """Whether our controller answers an admission check for every gang."""
        return self.gang_admission.mode is GangMode.MUSTER and self.scheduler.traits.admits_jobs

    @property
    def is_gated(self) -> bool:
        """Whether GPU pods of gangs are born behind our gate: no admission check holds them."""
        return self.gang_admission.mode is GangMode.MUSTER and not self.scheduler.traits.admits_jobs

    @property
    def all_priorities(self) -> list[Priority]:
        """With those that the scheduler brings, highest first."""
        return self.scheduler.priorities(self.priorities)

    def installs(self, program: Program) -> bool:
        """Whether the stack installs the program, if it needs it at all. Otherwise the cluster has it."""
        match program:
            case Program.KUEUE:
                return self.kueue.install
            case Program.KAI:
                return self.kai.install
            case Program.KUBERAY:
                return self.kuberay.install is not False
            case Program.GPU_OPERATOR:
                return self.gpu_operator.install is not False

    def pool(self, name: str) -> Pool | None:
        return next((pool for pool in self.pools if pool.name == name), None)

    def walk(self) -> Iterator[tuple[tuple[Department, ...], Department]]:
        """Every department, parents first, with the chain of its parents."""
        for department in self.departments:
            yield from department.walk()

    def teams(self) -> Iterator[tuple[tuple[Department, ...], Team]]:
        """Every team with the chain of its departments from the top; the last one holds the team."""
        for above, department in self.walk():
            for team in department.teams:
                yield (*above, department), team

    def teams_by_namespace(self) -> dict[str, Team]:
        """By namespace, and by name for lists that know no namespaces."""
        teams = [team for _, team in self.teams()]
        by_name = {team.name: team for team in teams}
        return by_name | {space: team for team in teams for space in team.namespaces}

    def owners(self) -> Iterator[tuple[tuple[Department, ...], Team]]:
        """The teams with a queue of their own."""
        return ((chain, team) for chain, team in self.teams() if team.queue is None)

    def queue_members(self) -> dict[str, tuple[Team, ...]]:
        """Owner of a queue -> the teams whose work is in it, the owner first."""
        found = {team.name: [team] for _, team in self.owners()}
        for _, team in self.teams():
            if team.queue in found:
                found[team.queue].append(team)
        return {owner: tuple(teams) for owner, teams in found.items()}

    @property
    def is_weighted(self) -> bool:
        """Whether any weight is set: without one, dividing what is free by weight stays switched off."""
        allowances = [department.allowance for _, department in self.walk()]
        allowances += [team.allowance for _, team in self.teams()]
        return any(allowance.weight is not None for allowance in allowances)


_Made = TypeVar("_Made")


def kept_for_stack(make: Callable[[Stack], _Made]) -> Callable[[Stack], _Made]:
    """Makes something of a stack once. What is made of the last two is kept, for a report compares two, and
    neither a stack nor what is made of it changes.
    """
    kept: deque[tuple[Stack, _Made]] = deque(maxlen=2)

    @wraps(make)
    def kept_or_made(stack: Stack) -> _Made:
        for known, made in tuple(kept):
            if known is stack:
                return made
        made = make(stack)
        kept.append((stack, made))
        return made

    return kept_or_made
