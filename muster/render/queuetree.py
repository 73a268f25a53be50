"""The stack's QueueTree: the queues as the webhooks need them, derived from the scheduler's queue tree. And
how each team submits work: its namespace, its queues, the labels that choose them, its priorities.

    queue_tree(stack)   what each queue can hold
    submissions(stack)  team -> what a job of the team has to carry
    dry_runs(stack)     team -> the smallest RayJob that a member could submit
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.model import names
from muster.model.queuetree import Queue, QueueTree, Space, to_manifest
from muster.model.ray import FIRST_WITH_TOKEN
from muster.model.stack import Stack, kept_for_stack
from muster.model.tenancy import Namespaces
from muster.render.manifest import Manifest, manifest
from muster.render.queues import renderer
from muster.render.tenancy.team import priorities_of

# Every resource begins with it.
_EVERYTHING: Final = ""


def tree(stack: Stack) -> Manifest:
    """The QueueTree object."""
    return to_manifest(queue_tree(stack))


def queue_tree(stack: Stack) -> QueueTree:
    found = spaces_by_team(stack)
    return QueueTree(
        kai=bool(stack.scheduler.traits.pod_scheduler),
        gated=stack.is_gated,
        guarded=stack.ray.is_guarded,
        uncounted=_uncounted(stack),
        spaces={name: found[team.name] for _, team in stack.teams() for name in team.namespaces},
    )


@kept_for_stack
def spaces_by_team(stack: Stack) -> Mapping[str, Space]:
    """team -> its own namespace, as the webhooks know it."""
    queues = renderer(stack).queues_of_teams(stack)
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
    traits, spaces = stack.scheduler.traits, spaces_by_team(stack)
    found = {}
    for _, team in stack.teams():
        space = spaces[team.name]
        # Kueue puts a job that names no queue into this one, so it is the first to offer.
        queues = sorted(space.queues, key=lambda queue: queue.name != names.DEFAULT_LOCAL_QUEUE)
        found[team.name] = Submission(
            namespaces=team.namespaces,
            queues=tuple(_queue(queue, traits.queue_label) for queue in queues),
            priority_label=traits.priority_label,
            priorities=space.priorities,
            default_priority=space.default_priority or "",
        )
    return found


def dry_runs(stack: Stack) -> dict[str, Manifest]:
    """None where Muster guards no namespace: there is no rule of ours to wait for."""
    if stack.tenancy.namespaces is Namespaces.EXISTING:
        return {}
    return {team: _ray_job(stack, submission) for team, submission in submissions(stack).items()}


def _queue(queue: Queue, label: str) -> SubmissionQueue:
    labels = {label: queue.name}
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
