"""The stack's QueueTree: the queues as the webhooks need them, derived from the scheduler's queue tree. And
how each team submits work: its namespace, its queues, the labels that choose them, its priorities.

    queue_tree(stack)   what each queue can hold
    submissions(stack)  team -> what a job of the team has to carry
    dry_runs(stack)     team -> the smallest RayJob that a member could submit

What a queue can hold is an upper bound: its own and what it may borrow, or all of its tree's where borrowing
has no limit. Lending limits are not subtracted: a bound that is too high lets a gang wait, and one that is
too low would refuse a gang that could run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any, Final

from muster.model import names
from muster.model.kai import Unlimited
from muster.model.kai import tree as kai_tree
from muster.model.kueue import Group, Quota
from muster.model.kueue.tree import Node, Tree, to_tree
from muster.model.names import GPU_RESOURCE, UNCOUNTED_DEVICES
from muster.model.quantities import Quantity
from muster.model.queuetree import ANY_POOL, Limits, Queue, QueueTree, Space, to_manifest
from muster.model.ray import FIRST_WITH_TOKEN
from muster.model.stack import Stack, kept_for_stack
from muster.model.tenancy import Namespaces
from muster.render import kai
from muster.render.kueue.queues import local_queues
from muster.render.manifest import Manifest, manifest
from muster.render.tenancy.team import priorities_of

# Every resource begins with it.
_EVERYTHING: Final = ""
_MEGABYTE: Final = 10**6


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Of one queue, as in `Queue`."""

    most: Mapping[str, int] = field(default_factory=dict)
    limits: tuple[Limits, ...] = ()


def tree(stack: Stack) -> Manifest:
    """The QueueTree object."""
    return to_manifest(queue_tree(stack))


def queue_tree(stack: Stack) -> QueueTree:
    found = spaces_by_team(stack)
    return QueueTree(
        kai=stack.scheduler.is_kai,
        gated=stack.is_gated,
        guarded=stack.ray.is_guarded,
        uncounted=_uncounted(stack),
        spaces={name: found[team.name] for _, team in stack.teams() for name in team.namespaces},
    )


@kept_for_stack
def spaces_by_team(stack: Stack) -> Mapping[str, Space]:
    """team -> its own namespace, as the webhooks know it."""
    queues = _of_kai(stack) if stack.scheduler.is_kai else _of_kueue(stack)
    return {
        team.name: Space(
            team=team.name,
            queues=queues[team.name],
            priorities=priorities_of(stack, team),
            default_priority=team.access.default_priority or _default(stack, priorities_of(stack, team)),
        )
        for _, team in stack.teams()
    }


def _uncounted(stack: Stack) -> tuple[str, ...]:
    """A Kueue that Muster does not install has a configuration of its own."""
    return stack.uncounted_resources if stack.kueue.install else (_EVERYTHING,)


def _default(stack: Stack, allowed: tuple[str, ...]) -> str | None:
    """The stack's default, for the teams that may use it."""
    default = stack.tenancy.default_priority
    return default if default in allowed else None


def _of_kueue(stack: Stack) -> dict[str, tuple[Queue, ...]]:
    """team -> the LocalQueues of its own namespace, with what their ClusterQueue holds."""
    tree = to_tree(stack)
    bounds = _kueue_bounds(tree)
    return {
        team.name: tuple(
            Queue(name=name, most=bounds[owner].most, limits=bounds[owner].limits)
            for namespace, name in local_queues(team, teams[0])
            if namespace == team.namespace
        )
        for owner, teams in tree.members.items()
        for team in teams
    }


# A pool, or a flavor that is no pool's, and a resource.
_Key = tuple[str, str]


def _kueue_bounds(tree: Tree) -> dict[str, _Bounds]:
    """team -> what its ClusterQueue can hold."""
    whole: dict[str, dict[_Key, Fraction]] = {}
    for name, node in tree.nodes.items():
        root = whole.setdefault(tree.root(name), {})
        for group in node.groups:
            for key, quota in _counted(node, group):
                root[key] = root.get(key, Fraction(0)) + quota.nominal.value
    return {team.name: _bounds(team, whole[tree.root(team.name)]) for team in tree.teams()}


def _bounds(team: Node, root: Mapping[_Key, Fraction]) -> _Bounds:
    most: dict[str, int] = {}
    limits: list[dict[str, dict[str, str]]] = []
    for group in team.groups:
        limits.append({})
        for (pool, resource), quota in _counted(team, group):
            own, reach = quota.nominal.value, root[pool, resource]
            if team.is_alone:
                reach = own
            elif quota.borrowing is not None:
                reach = min(reach, own + quota.borrowing.value)
            bound = max(own, reach)
            if resource == GPU_RESOURCE:
                most[pool] = ceil(bound)
            else:
                limits[-1].setdefault(pool, {})[resource] = str(Quantity(bound, resource == "memory"))
    return _Bounds(most, tuple(limits))


def _counted(node: Node, group: Group) -> Iterator[tuple[_Key, Quota]]:
    for flavor in group.flavors:
        pool = node.pools.get(flavor.name)
        for quota in flavor.resources:
            if quota.name != UNCOUNTED_DEVICES:
                yield (flavor.name if pool is None else pool.name, quota.name), quota


def _of_kai(stack: Stack) -> dict[str, tuple[Queue, ...]]:
    """team -> KAI's leaves of it: one, or one of each pool."""
    gpus = {pool.name: pool.slots_per_node for pool in stack.pools}
    queues = {node.name: node for node in kai_tree.nodes(stack)}
    bounds = {name: _kai_bounds(node, queues) for name, node in queues.items() if node.team is not None}
    return {
        team: tuple(
            Queue(
                name=name,
                pool=pool or "",
                gpus=gpus[pool] if pool else 0,
                most=bounds[name].most,
                limits=bounds[name].limits,
            )
            for pool, name in leaves.items()
        )
        for team, leaves in kai.leaf_queues(stack).items()
    }


def _kai_bounds(node: kai_tree.Node, queues: Mapping[str, kai_tree.Node]) -> _Bounds:
    """Over all pools: the least limit from the queue to the top. A resource without a limit has no bound."""
    chain = [node]
    while (parent := chain[-1].parent) is not None:
        chain.append(queues[parent])
    least = {}
    for key in kai_tree.RESOURCES:
        limits = [each.figures[key].limit for each in chain]
        if bounded := [each for each in limits if not isinstance(each, Unlimited)]:
            least[key] = min(bounded)
    gpus = least.pop("gpu", None)
    more = {key: str(Quantity(_in_kai_units(key, limit))) for key, limit in least.items()}
    return _Bounds(
        {} if gpus is None else {ANY_POOL: ceil(Fraction(gpus, 1000))}, ({ANY_POOL: more},) if more else ()
    )


def _in_kai_units(key: str, limit: int) -> Fraction:
    """KAI counts thousandths of a CPU and millions of bytes."""
    return Fraction(limit, 1000) if key == "cpu" else Fraction(limit // _MEGABYTE * _MEGABYTE)


_RAY_API_VERSION = "ray.io/v1"
# Never created; the name shows in the API server's audit log alone.
_DRY_RUN = "muster-dry-run"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionQueue:
    """A queue that jobs of a team may name: a LocalQueue of Kueue's, a leaf Queue of KAI's.

    `labels` choose it: set them on the job itself.
    """

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a job of one team has to carry.

    `priorities` has the highest first; a job names one of them in the label `priority_label`. A job without
    one gets `default_priority`, where that is not empty. `namespaces` are all of the team's, the first first.
    """

    namespaces: tuple[str, ...]
    queues: tuple[SubmissionQueue, ...]
    priority_label: str
    priorities: tuple[str, ...]
    default_priority: str

    def labels(self) -> dict[str, str]:
        """Labels with which a job is accepted: those of the first queue, at the lowest priority."""
        queue = dict(self.queues[0].labels) if self.queues else {}
        return {**queue, self.priority_label: self.priorities[-1]} if self.priorities else queue

    def output(self) -> dict[str, Any]:
        """The same as a stack output. `namespaces` is there where the team has several."""
        several = {"namespaces": list(self.namespaces)} if len(self.namespaces) > 1 else {}
        return {
            "namespace": self.namespaces[0],
            **several,
            "queues": [{"name": queue.name, "labels": dict(queue.labels)} for queue in self.queues],
            "priorityLabel": self.priority_label,
            "priorities": list(self.priorities),
            "defaultPriority": self.default_priority,
        }


def submissions(stack: Stack) -> dict[str, Submission]:
    is_kai = stack.scheduler.is_kai
    spaces = spaces_by_team(stack)
    found = {}
    for _, team in stack.teams():
        space = spaces[team.name]
        # Kueue puts a job that names no queue into this one, so it is the first to offer.
        queues = sorted(space.queues, key=lambda queue: queue.name != names.DEFAULT_LOCAL_QUEUE)
        found[team.name] = Submission(
            namespaces=team.namespaces,
            queues=tuple(_queue(queue, is_kai=is_kai) for queue in queues),
            priority_label=names.KAI_PRIORITY_LABEL if is_kai else names.PRIORITY_LABEL,
            priorities=space.priorities,
            default_priority=space.default_priority or "",
        )
    return found


def dry_runs(stack: Stack) -> dict[str, Manifest]:
    """None where Muster guards no namespace: there is no rule of ours to wait for."""
    if stack.tenancy.namespaces is Namespaces.EXISTING:
        return {}
    return {team: _ray_job(stack, submission) for team, submission in submissions(stack).items()}


def _queue(queue: Queue, *, is_kai: bool) -> SubmissionQueue:
    labels = {names.KAI_QUEUE_LABEL if is_kai else names.QUEUE_LABEL: queue.name}
    if queue.pool:
        labels[names.POOL_LABEL] = queue.pool
    return SubmissionQueue(name=queue.name, labels=labels)


def _ray_job(stack: Stack, submission: Submission) -> Manifest:
    release = str(stack.ray.minimum)
    container = {
        "name": "ray-head",
        "image": f"rayproject/ray:{release}",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    cluster: dict[str, Any] = {
        "rayVersion": release,
        "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [container]}}},
    }
    if stack.ray.is_guarded and stack.ray.minimum >= FIRST_WITH_TOKEN:
        cluster["authOptions"] = {"mode": "token"}
    return manifest(
        _RAY_API_VERSION,
        "RayJob",
        _DRY_RUN,
        namespace=submission.namespaces[0],
        labels=submission.labels(),
        spec={
            "entrypoint": "true",
            "submissionMode": "HTTPMode",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": cluster,
        },
    )
