"""`muster why` for a stack with KAI: when a waiting job starts, by KAI's own scheduler in drawn futures."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.cli import main
from muster.live.snapshot import GroupPod, Node, PodGroup, Taint, Toleration
from muster.model import names
from muster.model.stack import Scheduler
from muster.preview.whatif.kai import group_manifest, pod_manifest, to_manifest
from muster.replay.recording import Header, Job, Recording
from muster.replay.recording_file import write_recording
from tests import built, envtest
from tests.envtest import ControlPlane
from tests.integration.lab import recorded_job, run_of, write_stack
from tests.integration.real_kai.cluster import KAI
from tests.integration.real_kai.programs import KAI_CRDS
from tests.integration.replay.why import why

pytestmark = pytest.mark.usefixtures("program")
_START: Final = 1_764_000_000.0
_HOUR: Final = 3600.0
_NOW: Final = 30 * _HOUR


def _job(name: str, team: str, *, at: float, gpus: int = 4, seconds: float | None = None) -> Job:
    """Without `seconds` it has not started; a job that would run beyond the recording still runs."""
    created = _START + at
    run = run_of(created, None if at + seconds > _NOW else seconds) if seconds is not None else None
    more = {"queue": team, "priority": 50, "priority_class": "train"}
    return recorded_job(name, team, run, created=created, gpus=1, pods=gpus, **more)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two teams with 4 GPUs each, whose jobs take two hours. At the end of the recording vision's has run for
    an hour and speech's for half an hour. Two wait behind the first, one behind the second.
    """
    folder = tmp_path_factory.mktemp("forecast")
    teams = {name: {"quota": {"l4": 4}} for name in ("vision", "speech")}
    write_stack(folder / "stack.yaml", teams, scheduler="kai", priorities={"train": 50, "build": 90})
    write_recording(folder / "month.jsonl", _recording())
    return folder / "stack.yaml", folder / "month.jsonl"


def _recording() -> Recording:
    jobs = [
        _job(f"past-{index:02}", team, at=index, seconds=2 * _HOUR)
        for team in ("vision", "speech")
        for index in range(24)
    ]
    jobs += [
        _job("long", "vision", at=_NOW - _HOUR, seconds=2 * _HOUR),
        _job("short", "speech", at=_NOW - _HOUR / 2, seconds=2 * _HOUR),
        _job("first", "vision", at=_NOW - 20),
        _job("second", "vision", at=_NOW - 10),
        _job("third", "speech", at=_NOW - 5),
    ]
    header = Header(scheduler=Scheduler.KAI, start=_START, end=_START + _NOW, source="test")
    return Recording(header=header, jobs=tuple(sorted(jobs, key=lambda job: job.created)))


def test_jobs_of_two_queues_start_when_what_runs_in_their_own_has_ended(world: tuple[Path, Path]) -> None:
    """The later ends are noticed as the first one is: each queue waits for its own job."""
    found = {each["job"]: each for each in why(world, "--all")["forecasts"]}
    starts = {job: (each["earliest"], each["latest"]) for job, each in found.items()}
    assert starts["vision/first"] == (pytest.approx(_HOUR, abs=5),) * 2
    assert starts["speech/third"] == (pytest.approx(1.5 * _HOUR, abs=5),) * 2
    assert starts["vision/second"] == (pytest.approx(3 * _HOUR, abs=10),) * 2
    assert found["vision/first"]["ends"] == [
        {"team": "vision", "priority": "train", "jobs": 1.0, "gpus": 4.0}
    ]
    assert [(each["place"], each["waiting"]) for each in found.values()] == [(1, 2), (2, 2), (1, 1)]
    assert found["vision/second"]["ahead"] == [
        {"team": "vision", "priority": "train", "jobs": 1.0, "gpus": 4.0}
    ]


def test_the_text_names_who_decides_and_how_many_futures(
    world: tuple[Path, Path], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    stack, recording = world
    assert main(["why", "speech/third", "--stack", str(stack), "--replay", str(recording)]) == 0
    shown = capfdbinary.readouterr().out.decode()
    assert "Starts in 90 min" in shown
    assert "20 futures of 7.0 days (seed 0) were played by KAI's scheduler" in shown
    assert "Every pool has its largest size" in shown


def _file(folder: Path, *, priority: str) -> Path:
    """A RayCluster of a head without GPUs and four workers with one each."""

    def pods(**limits: str) -> dict[str, Any]:
        resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": limits}
        return {"spec": {"containers": [{"name": "ray", "image": "i", "resources": resources}]}}

    workers = {"groupName": "w", "replicas": 4, "template": pods(**{names.GPU_RESOURCE: "1"})}
    labels = {names.KAI_QUEUE_LABEL: "speech", names.KAI_PRIORITY_LABEL: priority}
    body = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "train", "labels": labels},
        "spec": {"headGroupSpec": {"template": pods()}, "workerGroupSpecs": [workers]},
    }
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(body))
    return file


def test_a_job_that_is_not_submitted_waits_behind_those_of_its_queue_or_preempts_them(
    world: tuple[Path, Path], tmp_path: Path
) -> None:
    found = why(world, "-f", str(_file(tmp_path, priority="train")), "--team", "speech")
    assert (found["place"], found["waiting"], found["gpus"]) == (2, 2, 4)
    assert found["median"] == pytest.approx(3.5 * _HOUR, abs=10)
    [urgent] = found["alternatives"]["sooner"]
    assert (urgent["change"], urgent["latest"], urgent["place"]) == ("priority build", 0, 1)
    assert urgent["preempts"] == [{"team": "speech", "priority": "train", "jobs": 1.0, "gpus": 4.0}]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The team has 4 GPUs. A job that has run for an hour has three of them, one of half an hour the fourth.
    Two more wait.
    """
    found = built.programs(("etcd", "kube-apiserver"), (KAI_CRDS,))
    now = datetime.now(UTC)
    taint = Taint(names.GPU_TAINT_KEY, names.GPU_TAINT_VALUE, names.GPU_TAINT_EFFECT)
    room = {"cpu": 8000, "memory": 2**34, "pods": 58, names.GPU_RESOURCE: 1}
    folder = tmp_path_factory.mktemp("kai-forecast")
    with envtest.control_plane(folder, found, kinds=found.kinds(KAI_CRDS)) as plane:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vision"}}
        plane.call("POST", "/api/v1/namespaces", space)
        for index in range(8):
            node = Node(name=f"n{index}", room=room, labels={names.POOL_LABEL: "l4"}, taints=(taint,))
            made = plane.call("POST", "/api/v1/nodes", to_manifest(node))
            # Admission taints each new node as not ready, until a kubelet reports.
            made["spec"]["taints"] = to_manifest(node)["spec"]["taints"]
            plane.call("PUT", f"/api/v1/nodes/{node.name}", made)
        for group in (
            _group("long", "n0", "n1", "n2", started=now - timedelta(hours=1)),
            _group("short", "n3", started=now - timedelta(minutes=30)),
            _group("waits", "", ""),
            _group("whole", "", "", "", ""),
        ):
            plane.call("POST", f"{KAI}/v2alpha2/namespaces/vision/podgroups", group_manifest(group))
            for pod in group.pods:
                plane.call("POST", "/api/v1/namespaces/vision/pods", _pod(group, pod))
            # Times have whole seconds, and those of one second are in no order.
            time.sleep(1.1)
        yield plane


def _pod(group: PodGroup, pod: GroupPod) -> dict[str, Any]:
    """As the API server takes it: GPUs have a limit."""
    found = pod_manifest(group, pod)
    resources = found["spec"]["containers"][0]["resources"]
    resources["limits"] = resources["requests"]
    return found


def _group(name: str, *nodes: str, started: datetime | None = None) -> PodGroup:
    """With a pod of one GPU for each node; "" for one that waits."""
    return PodGroup(
        namespace="vision",
        name=name,
        queue="vision",
        created=datetime.now(UTC),
        started=started,
        pods=tuple(
            GroupPod(
                name=f"{name}-{index}",
                requests={names.GPU_RESOURCE: 1},
                node=node,
                tolerations=(Toleration(names.GPU_TAINT_KEY, "Exists", "", ""),),
            )
            for index, node in enumerate(nodes)
        ),
        min_member=len(nodes),
        priority_class="train",
    )


def test_what_runs_in_a_cluster_holds_its_nodes_until_it_has_ended(
    cluster: ControlPlane, world: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    stack, recording = world
    asked = ["--kubeconfig", str(cluster.kubeconfig()), "--stack", str(stack), "--recording", str(recording)]
    assert main(["why", "--all", *asked, "--runs", "10", "--days", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["forecasts"]
    assert {each["job"]: each["median"] for each in found} == {
        "vision/waits": pytest.approx(_HOUR, abs=240),
        # Behind the other, which then runs for two hours.
        "vision/whole": pytest.approx(3 * _HOUR, abs=240),
    }
    assert main(["why", "vision/whole", *asked, "--runs", "10", "--days", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("vision/whole: waits: 0 of 4 pods ready\n")
    assert "\n\nvision/whole: vision, train, 4 GPUs\n" in shown
    assert "What runs and waits is read from the cluster" in shown
