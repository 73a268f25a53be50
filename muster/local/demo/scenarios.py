"""The example runs: what is applied, and which conditions must become true, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from muster.local.demo.events import Snapshot, holds, pods_of
from muster.local.demo.follower import Follower, StoryError


@dataclass(frozen=True, slots=True)
class Images:
    """By digest or tag; only those that the story uses have to be there."""

    ray: str
    python: str


@dataclass(frozen=True, slots=True)
class Story:
    summary: str
    namespace: str
    play: Callable[[Follower, Images, str], None]


def gang(follower: Follower, images: Images, _: str) -> None:
    follower.apply(
        "gang/rayjob.yaml", images={"RAY_IMAGE": images.ray}, programs={"gang-train": "gang/train.py"}
    )
    follower.until("RayJob gang SUCCEEDED", lambda now: _succeeded(now, "gang"))
    follower.until("its nodes are released", lambda now: not follower.new_nodes(now))


def priority(follower: Follower, images: Images, victim: str) -> None:
    """A dev job or cluster runs, prod takes its place and finishes, dev comes back by itself."""
    ray = {"RAY_IMAGE": images.ray}
    kind, name = _VICTIMS[victim]
    if victim == "rayjob":
        follower.apply(
            "priority/dev-rayjob.yaml", images=ray, programs={"dev-simulate": "priority/simulate.py"}
        )
        follower.until("dev has a checkpoint worth keeping", lambda _: _rounds(follower) >= 5)
    else:
        follower.apply("priority/dev-raycluster.yaml", images=ray, programs={})
        follower.until("RayCluster notebook is ready", lambda now: _state(now, name) == "ready")
    follower.apply("priority/prod-rayjob.yaml", images=ray, programs={"gang-train": "gang/train.py"})
    follower.until(f"{kind} {name} is preempted and suspended", lambda now: _suspended(now, kind, name))
    kept = _rounds(follower)
    follower.until("RayJob prod SUCCEEDED", lambda now: _succeeded(now, "prod"))
    if victim == "raycluster":
        follower.until("RayCluster notebook is ready again", lambda now: _state(now, name) == "ready")
        return
    follower.until("RayJob dev SUCCEEDED", lambda now: _succeeded(now, "dev"))
    if _rounds(follower) < kept:
        raise StoryError(f"the checkpoint went back from round {kept} to {_rounds(follower)}")


def batch(follower: Follower, images: Images, _: str) -> None:
    follower.apply("batch/job.yaml", images={"PYTHON_IMAGE": images.python}, programs={})
    follower.until("Job primes is complete", lambda now: _complete(now, "primes"))


_VICTIMS: Final = {"rayjob": ("RayJob", "dev"), "raycluster": ("RayCluster", "notebook")}

STORIES: Final[Mapping[str, Story]] = {
    "gang": Story("a RayJob over three pools waits, starts as a whole and finishes", "team-a", gang),
    "priority": Story("prod preempts dev, dev resumes from its checkpoint; both finish", "team-b", priority),
    "batch": Story("a plain Job goes through the same queues", "team-c", batch),
}
VICTIMS: Final = tuple(_VICTIMS)


def _succeeded(now: Snapshot, name: str) -> bool:
    job = now.find("RayJob", name)
    return job is not None and (job.get("status") or {}).get("jobStatus") == "SUCCEEDED"


def _complete(now: Snapshot, name: str) -> bool:
    job = now.find("Job", name)
    return job is not None and holds(job, "Complete")


def _state(now: Snapshot, name: str) -> str:
    cluster = now.find("RayCluster", name)
    return str(((cluster or {}).get("status") or {}).get("state", ""))


def _suspended(now: Snapshot, kind: str, name: str) -> bool:
    job = now.find(kind, name)
    if job is None or job["spec"].get("suspend") is not True or pods_of(now, job):
        return False
    status = job.get("status") or {}
    return (status.get("jobDeploymentStatus") or status.get("state")) in ("Suspended", "suspended")


def _rounds(follower: Follower) -> int:
    """How far dev has come, from the ConfigMap that it keeps its checkpoint in."""
    found = follower.cluster.get("ConfigMap", "dev-checkpoint", namespace=follower.namespace)
    return int(((found or {}).get("data") or {}).get("round", 0))
