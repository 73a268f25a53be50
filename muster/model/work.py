"""The kinds of work, a row each: how the API server, Kueue and a stack call them.

What follows from a row: what a team's members may create and how much of it, the policies and webhooks that
judge it, Kueue's integrations, and what `muster check` and `muster why` know. Their fields that only one
kind has are judged where that kind is (muster/render/tenancy/policies).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Work(StrEnum):
    """A family of kinds that a stack serves. ray: RayJob, RayCluster and RayService. job: Job and CronJob.
    jobset: JobSet, whose controller the cluster brings along.
    """

    RAY = "ray"
    JOB = "job"
    JOBSET = "jobset"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkKind:
    """One kind of work.

    `cluster` is the path in its object to a Ray cluster, empty where it has none. `framework` is Kueue's
    integration, empty for a kind that only makes work, whose objects are queued themselves. A kind without
    `word` is not for members: `word` is its key in a stack's limits of objects, with at most `objects` in a
    namespace, of `kibibytes` KiB each.
    """

    family: Work
    kind: str
    group: str
    version: str
    resource: str
    framework: str = ""
    word: str = ""
    objects: int = 0
    kibibytes: int = 0
    cluster: str = ""

    @property
    def is_queued(self) -> bool:
        return bool(self.framework)

    @property
    def is_ray(self) -> bool:
        return self.family is Work.RAY

    @property
    def is_for_members(self) -> bool:
        return bool(self.word)

    @property
    def api(self) -> str:
        """The path of its API group and version."""
        return f"/apis/{self.group}/{self.version}"

    def ray_cluster(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The spec of the Ray cluster in an object; None where it has none, or something else there."""
        at: Any = body if self.cluster else None
        for part in self.cluster.split("."):
            at = at.get(part) if isinstance(at, dict) else None
        return at if isinstance(at, dict) else None


# Integrations: pkg/controller/jobs of Kueue 0.19.2. Paths: the kinds' own Go types (KubeRay 1.6.2,
# ray-operator/apis/ray/v1).
WORK: Final = (
    WorkKind(
        family=Work.RAY,
        kind="RayJob",
        group="ray.io",
        version="v1",
        resource="rayjobs",
        framework="ray.io/rayjob",
        word="rayJobs",
        objects=500,
        kibibytes=128,
        cluster="spec.rayClusterSpec",
    ),
    WorkKind(
        family=Work.RAY,
        kind="RayCluster",
        group="ray.io",
        version="v1",
        resource="rayclusters",
        framework="ray.io/raycluster",
        word="rayClusters",
        objects=500,
        kibibytes=128,
        cluster="spec",
    ),
    WorkKind(
        family=Work.RAY,
        kind="RayService",
        group="ray.io",
        version="v1",
        resource="rayservices",
        framework="ray.io/rayservice",
        word="rayServices",
        objects=50,
        kibibytes=128,
        cluster="spec.rayClusterConfig",
    ),
    WorkKind(
        family=Work.RAY,
        kind="RayCronJob",
        group="ray.io",
        version="v1",
        resource="raycronjobs",
        cluster="spec.jobTemplate.rayClusterSpec",
    ),
    WorkKind(
        family=Work.JOB,
        kind="Job",
        group="batch",
        version="v1",
        resource="jobs",
        framework="batch/job",
        word="jobs",
        objects=2000,
        kibibytes=64,
    ),
    WorkKind(
        family=Work.JOB,
        kind="CronJob",
        group="batch",
        version="v1",
        resource="cronjobs",
        word="cronJobs",
        objects=100,
        kibibytes=64,
    ),
    WorkKind(
        family=Work.JOBSET,
        kind="JobSet",
        group="jobset.x-k8s.io",
        version="v1alpha2",
        resource="jobsets",
        framework="jobset.x-k8s.io/jobset",
        word="jobSets",
        objects=500,
        kibibytes=128,
    ),
)
SERVED: Final = (Work.RAY, Work.JOB)
"""What a stack serves that names nothing else."""

FOR_MEMBERS: Final = tuple(each for each in WORK if each.is_for_members)
QUEUED: Final = tuple(each for each in WORK if each.is_queued)
RAY: Final = tuple(each for each in QUEUED if each.is_ray)
BY_KIND: Final = {each.kind: each for each in WORK}


def by_group(kinds: Iterable[WorkKind]) -> dict[str, tuple[str, ...]]:
    """Their resources by API group, in order."""
    groups: dict[str, tuple[str, ...]] = {}
    for each in kinds:
        groups[each.group] = (*groups.get(each.group, ()), each.resource)
    return groups
