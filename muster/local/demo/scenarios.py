"""The example runs: what is applied, and which conditions must become true, in order."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from muster.local import kai
from muster.local.demo.cluster import Object
from muster.local.demo.events import POOL, RETRY_AT, Snapshot, holds, is_gated, name_of, pods_of, requests_of
from muster.local.demo.follower import Follower, StoryError
from muster.model.names import GPU_GROUP_LABEL
from muster.model.quantities import many
from muster.paths import project


@dataclass(frozen=True, slots=True)
class Images:
    """By digest or tag; only those that the story uses have to be there."""

    ray: str
    python: str


@dataclass(frozen=True, slots=True)
class Story:
    """`namespace`: of its programs; `others`: where its jobs run too. `stack`: on which it is played."""

    summary: str
    namespace: str
    play: Callable[[Follower, Images, str], None]
    others: tuple[str, ...] = ()
    stack: str = "local"


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


def broken(follower: Follower, images: Images, _: str) -> None:
    """Two nodes of each pool; while those of one are late, one of the other breaks. It only starts."""
    follower.stock(l4=2, h100=2)
    follower.delay("h100", 30)
    follower.apply(
        "gang/rayjob.yaml",
        images={"RAY_IMAGE": images.ray, "eplicas: 1": "eplicas: 2"},
        programs={"gang-train": "gang/train.py"},
    )
    follower.until("two l4 nodes are ready", lambda now: len(_ready_nodes(follower, now, "l4")) == 2)
    name = min(_ready_nodes(follower, follower.look(), "l4"))
    follower.break_node(name)
    follower.until("the check names it", lambda now: f"node {name} is set aside" in _check(now, "gang"))
    follower.say("three healthy nodes and a broken one are no gang: no pod starts, and its quota stays")
    follower.until("all five pods have a node", lambda now: _placed(now, "gang") == 5)
    follower.delete("RayJob", "gang")
    follower.until("its nodes are released", lambda now: not follower.new_nodes(now))


def _ready_nodes(follower: Follower, now: Snapshot, pool: str) -> list[str]:
    new = follower.new_nodes(now)
    nodes = [node for node in now.of("Node") if name_of(node) in new and holds(node, "Ready")]
    return [name_of(node) for node in nodes if node["metadata"]["labels"].get(POOL) == pool]


def _placed(now: Snapshot, name: str) -> int:
    job = now.find("RayJob", name)
    return sum("nodeName" in pod["spec"] for pod in pods_of(now, job)) if job else 0


def karpenter(follower: Follower, images: Images, _: str) -> None:
    """Stock for half of a gang: with no gang check, then with placeholders, then the other half comes."""
    follower.stock(plain=_HALF, h100=_HALF)
    follower.say("pool plain has no gang check")
    _submit(follower, images, pool="plain")
    follower.until("half of the gang has nodes, the rest is refused", lambda now: _is_torn(follower, now))
    follower.say(f"{_HALF} of {2 * _HALF} nodes are bought and paid for, and the job cannot run")
    follower.delete("RayJob", "gang")
    follower.until("Karpenter releases the nodes", lambda now: not follower.new_nodes(now))

    follower.say("in pool h100 gangs get their nodes by placeholders")
    _submit(follower, images, pool="h100")
    follower.until("the try ends and frees its quota", lambda now: _is_released(now, "gang"))
    follower.until("Karpenter releases the nodes", lambda now: not follower.new_nodes(now))
    follower.say("no pod of the gang was created; it holds neither quota nor nodes until its next try")

    follower.stock(plain=_HALF, h100=2 * _HALF)
    follower.until("RayJob gang SUCCEEDED", lambda now: _succeeded(now, "gang"))
    follower.until("its nodes are released", lambda now: not follower.new_nodes(now))


def kai_gang(follower: Follower, images: Images, _: str) -> None:
    """Five pods behind the gate while the cloud has nodes for half of them, then all five."""
    follower.stock(l4=_HALF)
    follower.apply("kai/raycluster.yaml", images={"RAY_IMAGE": images.ray}, programs={})
    follower.until("the cloud takes the request for four nodes", lambda now: _is_accepted(now, "gang"))
    follower.say(f"the cloud has {_HALF} of {2 * _HALF} nodes: none is bought, and no pod starts")
    follower.stock(l4=2 * _HALF)
    follower.until("RayCluster gang is ready", lambda now: _is_whole_and_ready(now, "gang"))
    follower.delete("RayCluster", "gang")
    follower.until("its nodes are released", lambda now: not follower.new_nodes(now))


def kai_priorities(follower: Follower, images: Images, _: str) -> None:
    """One GPU for the four classes: each preempts the one below, but nothing preempts `build`."""
    follower.stock(l4=1)
    _start(follower, images, "train", priority="train")
    _preempt(follower, images, "build-preemptible", victim="train")
    _preempt(follower, images, "build", victim="build-preemptible")
    _submit_gang(follower, images, "inference", priority="inference")
    follower.until("the cloud has no node for inference", lambda now: _is_accepted(now, "inference"))
    follower.say("work of 100 or more is never evicted: inference waits until build has ended")
    follower.until("build is ready", lambda now: _is_ready(now, "build"))
    follower.delete("RayCluster", "build")
    follower.until("inference has the GPU", lambda now: _runs(now, "inference"))
    follower.delete("RayCluster", "inference")
    follower.until("build-preemptible has the GPU again", lambda now: _runs(now, "build-preemptible"))
    follower.delete("RayCluster", "build-preemptible")
    follower.until("train is ready again", lambda now: _is_ready(now, "train"))
    follower.delete("RayCluster", "train")
    follower.until("its node is released", lambda now: not follower.new_nodes(now))


def kai_reclaim(follower: Follower, images: Images, _: str) -> None:
    """A department runs beyond its quota on GPUs of the other, which takes them back."""
    follower.stock(l4=4)
    _start(follower, images, "own", workers=2)
    _start(follower, images, "extra", workers=2)
    follower.say(
        "department-1 has four GPUs, two of them beyond its quota: department-2 does not need its own"
    )
    _submit_gang(follower, images, "owner", workers=2, team="team-b")
    follower.until(
        "owner has the two GPUs of extra",
        lambda now: _starts(now, "owner") and _waits(now, "extra"),
    )
    if not _runs(follower.look(), "own"):
        raise StoryError("RayCluster own was evicted although it is within the quota of its team")
    follower.say("extra was evicted as a whole, and own, within the quota, runs on")
    follower.until("RayCluster owner is ready", lambda now: _is_ready(now, "owner"))
    follower.delete("RayCluster", "owner")
    follower.until("extra is ready again", lambda now: _is_ready(now, "extra"))
    for name in ("extra", "own"):
        follower.delete("RayCluster", name)
    follower.until("their nodes are released", lambda now: not follower.new_nodes(now))


def kai_sharing(follower: Follower, images: Images, _: str) -> None:
    """Two workers have half of one GPU each, and a third waits for a half."""
    follower.stock(l4=1)
    _submit_halves(follower, images, "pair", workers=2)
    now = follower.until("RayCluster pair runs", lambda now: _starts(now, "pair"))
    follower.say(f"both workers of pair share one GPU: {_shared_gpu(follower, now, 'pair')}")
    _submit_halves(follower, images, "third", workers=1)
    follower.until("the cloud has no node for third", lambda now: _is_accepted(now, "third"))
    follower.until("RayCluster pair is ready", lambda now: _is_ready(now, "pair"))
    follower.delete("RayCluster", "pair")
    follower.until("third is ready", lambda now: _is_ready(now, "third"))
    follower.delete("RayCluster", "third")
    follower.until("its node is released", lambda now: not follower.new_nodes(now))


def _submit_halves(follower: Follower, images: Images, name: str, *, workers: int) -> None:
    follower.say(f"RayCluster {name}: {many(workers, 'worker')} with half of a GPU each, queue team-a")
    replaced = {"name: pair": f"name: {name}", "eplicas: 2": f"eplicas: {workers}"}
    follower.apply("kai/half-gpus.yaml", images={"RAY_IMAGE": images.ray, **replaced}, programs={})


def _shared_gpu(follower: Follower, now: Snapshot, name: str) -> str:
    """The device, by the pod that holds it for them. Raises StoryError where the workers have several."""
    workers = [pod["metadata"]["labels"] for pod in _staying(now, name) if _is_worker(pod)]
    groups = {labels.get(GPU_GROUP_LABEL) for labels in workers}
    held = [
        str(pod["metadata"]["annotations"][kai.DEVICE_ANNOTATION])
        for pod in follower.cluster.all("Pod", namespace=kai.RESERVATIONS)
        if pod["metadata"]["labels"].get(GPU_GROUP_LABEL) in groups
    ]
    if len(groups) != 1 or len(held) != 1:
        raise StoryError(f"workers of {name} are in GPU groups {groups}, which hold {held}")
    return held[0]


def kai_inference(follower: Follower, images: Images, _: str) -> None:
    """A served model takes its GPU from training, answers a request, and training returns when it goes."""
    _show_pull_request(follower)
    follower.stock(l4=2)
    _start(follower, images, "train", workers=2)
    follower.until("train is ready", lambda now: _is_ready(now, "train"))
    ray = {"RAY_IMAGE": images.ray}
    follower.say("RayService model: one replica with a GPU, queue team-a, priority inference")
    follower.apply("kai/rayservice.yaml", images=ray, programs={"model": "kai/model.py"})
    follower.until("model has a GPU of train", lambda now: _starts(now, "model") and _waits(now, "train"))
    follower.say("train was evicted as a whole, and waits at the gate")
    follower.until("RayService model answers", lambda now: _serves(now, "model"))
    follower.apply("kai/request.yaml", images=ray, programs={})
    follower.until("the request has its answer", lambda now: _complete(now, "request"))
    follower.delete("Job", "request")
    follower.delete("RayService", "model")
    follower.until("train is ready again", lambda now: _is_ready(now, "train"))
    follower.delete("RayCluster", "train")
    follower.until("their nodes are released", lambda now: not follower.new_nodes(now))


def _show_pull_request(follower: Follower) -> None:
    """The report of the pull request that let team-a use these priorities."""
    words = ("diff", "local-kai", "--base", "stacks/local-kai-before.yaml")
    follower.say(f"$ muster {' '.join(words)}")
    command = (sys.executable, "-m", "muster", *words, "--json")
    done = subprocess.run(command, cwd=project(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise StoryError(f"the pull request has no report: {done.stderr}")
    (report,) = json.loads(done.stdout)["stacks"]
    for sentence in report["banner"]["others"]:
        follower.say(f"  {sentence}")


def _start(
    follower: Follower, images: Images, name: str, *, workers: int = 1, priority: str = "train"
) -> None:
    _submit_gang(follower, images, name, workers=workers, priority=priority)
    follower.until(f"RayCluster {name} runs", lambda now: _starts(now, name))


def _preempt(follower: Follower, images: Images, name: str, *, victim: str) -> None:
    _submit_gang(follower, images, name, priority=name)
    follower.until(f"{name} has the GPU of {victim}", lambda now: _starts(now, name) and _waits(now, victim))
    follower.say(f"{victim} was evicted as a whole, and waits at the gate")


def _submit_gang(
    follower: Follower,
    images: Images,
    name: str,
    *,
    workers: int = 1,
    priority: str = "train",
    team: str = "team-a",
) -> None:
    """The gang of the first story under another name."""
    follower.say(
        f"RayCluster {name}: {many(workers, 'worker')} with a GPU each, queue {team}, priority {priority}"
    )
    follower.apply(
        "kai/raycluster.yaml",
        images={
            "RAY_IMAGE": images.ray,
            "name: gang": f"name: {name}",
            "priorityClassName: train": f"priorityClassName: {priority}",
            "team-a": team,
            f"eplicas: {2 * _HALF}": f"eplicas: {workers}",
        },
        programs={},
    )


def _starts(now: Snapshot, name: str) -> bool:
    """Of a gang that nothing evicts while it is waited for."""
    _refuse_part(now, name)
    return _runs(now, name)


def _runs(now: Snapshot, name: str) -> bool:
    """All pods of the gang have a node."""
    pods = _staying(now, name)
    return len(pods) == _size(now, name) and all("nodeName" in pod["spec"] for pod in pods)


def _is_ready(now: Snapshot, name: str) -> bool:
    """All pods are ready. The state of an evicted RayCluster does not say it: that stays `ready`."""
    return _runs(now, name) and all(holds(pod, "Ready") for pod in _staying(now, name))


def _waits(now: Snapshot, name: str) -> bool:
    """All pods of the gang are behind the gate."""
    pods = _staying(now, name)
    return len(pods) == _size(now, name) and all(map(is_gated, pods))


def _staying(now: Snapshot, name: str) -> list[Object]:
    """Pods of the gang that are not being deleted."""
    gang = _gang(now, name)
    pods = pods_of(now, gang) if gang else []
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def _size(now: Snapshot, name: str) -> int:
    gang = _gang(now, name)
    if gang is None:
        return 1
    cluster = gang["spec"].get("rayClusterConfig", gang["spec"])
    groups = cluster["workerGroupSpecs"]
    return 1 + sum(int(group["replicas"]) for group in groups)


def _gang(now: Snapshot, name: str) -> Object | None:
    return now.find("RayCluster", name) or now.find("RayService", name)


def _serves(now: Snapshot, name: str) -> bool:
    _refuse_part(now, name)
    service = now.find("RayService", name)
    return service is not None and holds(service, "Ready")


def _is_accepted(now: Snapshot, name: str) -> bool:
    _refuse_part(now, name)
    cluster = now.find("RayCluster", name)
    return cluster is not None and any(holds(each, "Accepted") for each in requests_of(now, cluster))


def _is_whole_and_ready(now: Snapshot, name: str) -> bool:
    _refuse_part(now, name)
    return _state(now, name) == "ready"


def _refuse_part(now: Snapshot, name: str) -> None:
    """StoryError when a pod of the gang has a node while another waits at the gate."""
    pods = _staying(now, name)
    bound = sum("nodeName" in pod["spec"] for pod in pods)
    gated = sum(is_gated(pod) for pod in pods)
    if bound and gated:
        raise StoryError(f"{bound} pods of gang {name} have a node while {gated} wait at the gate")


_HALF: Final = 2
# Karpenter asks for the other nodes again and again, and each time the cloud has none.
_REFUSALS: Final = 3


def _submit(follower: Follower, images: Images, *, pool: str) -> None:
    follower.apply(
        "karpenter/rayjob.yaml",
        images={"RAY_IMAGE": images.ray, f"{POOL}: h100": f"{POOL}: {pool}"},
        programs={"gang-train": "gang/train.py"},
    )


def _is_torn(follower: Follower, now: Snapshot) -> bool:
    job = now.find("RayJob", "gang")
    workers = [pod for pod in pods_of(now, job) if _is_worker(pod)] if job else []
    bound = sum("nodeName" in pod["spec"] for pod in workers)
    events = follower.cluster.all("Event", namespace="default")  # NodeClaims have no namespace
    refusals = [event for event in events if event.get("reason") == "InsufficientCapacityError"]
    return len(workers) == 2 * _HALF and bound == _HALF and len(refusals) >= _REFUSALS


def _is_worker(pod: Object) -> bool:
    return (pod["metadata"].get("labels") or {}).get("ray.io/node-type") == "worker"


def _check(now: Snapshot, name: str) -> str:
    """What the gang's admission checks say."""
    checks = (_workload(now, name).get("status") or {}).get("admissionChecks") or ()
    return "; ".join(str(check.get("message")) for check in checks)


def _is_released(now: Snapshot, name: str) -> bool:
    """Out of its queue until the next try. A pod of it before that would be half a gang."""
    job = now.find("RayJob", name)
    if job and pods_of(now, job):
        raise StoryError(f"a pod of RayJob {name} was created although its nodes never came together")
    workload = _workload(now, name)
    is_out = (workload.get("spec") or {}).get("active") is False
    return is_out and RETRY_AT in (workload["metadata"].get("annotations") or {})


def _workload(now: Snapshot, name: str) -> Object:
    job = now.find("RayJob", name)
    return (now.workload_of(job) if job else None) or {}


_VICTIMS: Final = {"rayjob": ("RayJob", "dev"), "raycluster": ("RayCluster", "notebook")}

_WITH_KAI: Final = "with `local up --scheduler kai` and stack local-kai"
STORIES: Final[Mapping[str, Story]] = {
    "gang": Story("a RayJob over three pools waits, starts as a whole and finishes", "team-a", gang),
    "priority": Story("prod preempts dev, dev resumes from its checkpoint; both finish", "team-b", priority),
    "batch": Story("a plain Job goes through the same queues", "team-c", batch),
    "broken": Story("of four nodes one breaks while the gang waits; it gets another", "team-a", broken),
    "kai": Story(
        f"{_WITH_KAI}: five pods of a RayCluster start, or none", "team-a", kai_gang, stack="local-kai"
    ),
    "priorities": Story(
        f"{_WITH_KAI}: who preempts whom, from train to inference",
        "team-a",
        kai_priorities,
        stack="local-kai",
    ),
    "reclaim": Story(
        f"{_WITH_KAI}: a department takes back GPUs that it has lent",
        "team-a",
        kai_reclaim,
        others=("team-b",),
        stack="local-kai",
    ),
    "sharing": Story(
        f"{_WITH_KAI}: two workers share a GPU, and a third waits", "team-a", kai_sharing, stack="local-kai"
    ),
    "inference": Story(
        f"{_WITH_KAI}: a served model takes its GPU from training, and gives it back",
        "team-a",
        kai_inference,
        stack="local-kai",
    ),
    "karpenter": Story(
        "with `local up --autoscaler karpenter` and stack local-karpenter: stock for half of a gang",
        "team-a",
        karpenter,
        stack="local-karpenter",
    ),
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
