"""`muster record` beside the real Kueue: the recording equals what happened, also around a kill."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.cli import main
from muster.controller.kube.client import Client
from muster.controller.kube.connection import kubeconfig
from muster.model.names import BUDGET_ANNOTATION, WRITER_ANNOTATION
from muster.model.observability import Budgets
from muster.model.stack import Scheduler
from muster.render import recorder as deployed
from muster.replay.recording import End, Header, Job, PodSet, Recording, Run
from muster.replay.recording_file import load_recording, write_recording
from muster.usage.budgets import AGENT, Budget, Keeper, Order
from muster.usage.inputs import PoolTerms, Terms
from tests.envtest import ControlPlane
from tests.integration.accounts import account_kubeconfig
from tests.integration.kueue_api.objects import apply
from tests.integration.recorder import RecorderProcess, account, deploy, recording_stack, start_and_watch
from tests.waiting import PATIENCE, eventually

Object = dict[str, Any]

TEAM: Final = "recorded"
KUEUE: Final = "kueue.x-k8s.io/v1beta2"
WORKLOADS: Final = f"/apis/{KUEUE}/namespaces/{TEAM}/workloads"
MERGE: Final = "application/merge-patch+json"
SECRET: Final = "hunter2"


@pytest.fixture(scope="module")
def team(kueue_server: ControlPlane) -> ControlPlane:
    """A queue of four GPUs whose higher priorities preempt lower ones."""
    preemption = {"withinClusterQueue": "LowerPriority"}
    flavors = [{"name": TEAM, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4"}]}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]
    queue = {"preemption": preemption, "resourceGroups": groups, "namespaceSelector": {}}
    for kind, namespace, spec in (
        ("ResourceFlavor", "", {}),
        ("ClusterQueue", "", queue),
        ("LocalQueue", TEAM, {"clusterQueue": TEAM}),
    ):
        if namespace:
            meta = {"name": namespace}
            kueue_server.apply(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}, f"/api/v1/namespaces/{TEAM}"
            )
        metadata = {"name": TEAM, **({"namespace": namespace} if namespace else {})}
        apply(kueue_server, {"apiVersion": KUEUE, "kind": kind, "metadata": metadata, "spec": spec})
    return kueue_server


@pytest.fixture(scope="module")
def reader(team: ControlPlane) -> Path:
    """A kubeconfig of an account that may list and watch Workloads, and nothing else."""
    rules = [{"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["list", "watch"]}]
    return account(team, TEAM, "recorder", rules=rules)


@pytest.fixture
def recorder(reader: Path, tmp_path: Path) -> RecorderProcess:
    return RecorderProcess(reader, tmp_path / "day.jsonl.gz")


def test_a_recording_equals_what_happened(
    team: ControlPlane, recorder: RecorderProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    _submit(team, "early", gpus=1, priority=1)
    early = _admitted(team, "early")

    process = recorder.start()
    _submit(team, "low", gpus=2, priority=10)
    first = _admitted(team, "low")
    _submit(team, "high", gpus=3, priority=100)
    evicted = eventually("low is preempted", lambda: _condition(_get(team, "low"), "Evicted"))
    released = _release(team, "low")
    eventually("low's first run is in the file", lambda: _has_ended_run(recorder, 10))
    process.kill()
    process.wait()

    high = _admitted(team, "high")
    finished = _finish(team, "high")
    process = recorder.start()
    second = _admitted(team, "low")
    _submit(team, "large", gpus=4, priority=5)
    eventually("large waits", lambda: _find(_get(team, "large"), "QuotaReserved"))
    team.call("DELETE", f"{WORKLOADS}/large")
    eventually("large has left", lambda: _left(recorder, 5))
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0

    jobs = recorder.jobs()
    by_name = {name: _get(team, name)["metadata"] for name in ("early", "low", "high")}
    for name, priority in (("early", 1), ("low", 10), ("high", 100)):
        assert jobs[priority].created == _seconds(by_name[name]["creationTimestamp"])
        assert jobs[priority].team == TEAM
        assert jobs[priority].queue == jobs[priority].cluster_queue == TEAM
        assert jobs[priority].tie == int(by_name[name]["uid"][:4], 16)
    (run,) = jobs[1].runs
    assert (run.admitted, run.ended, run.flavors) == (early, None, (TEAM,))
    (before, after) = jobs[10].runs
    assert _is_dated(before.admitted, first)
    assert _is_dated(before.evicted, evicted)
    assert _is_dated(before.ended, released)
    assert (before.end, before.reason, before.by) == (End.PREEMPTED, "InClusterQueue", jobs[100].id)
    assert _is_dated(after.admitted, second)
    assert after.ended is None
    (run,) = jobs[100].runs
    assert _is_dated(run.admitted, high)
    assert _is_dated(run.ended, finished)
    assert (run.end, jobs[100].outcome) == (End.FINISHED, End.FINISHED)
    assert jobs[100].left == run.ended
    assert (jobs[5].runs, jobs[5].outcome) == ((), End.DELETED)
    assert jobs[100].pod_sets[0].requests == {"nvidia.com/gpu": 3}

    recording = load_recording(recorder.out)
    assert recording.warnings == ()
    _is_private(recording, by_name)
    assert main(["record", "show", str(recorder.out), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["teams"]
    assert (shown["team"], shown["jobs"], shown["preempted"]) == (TEAM, 4, 1)


def _is_dated(recorded: float | None, second: float) -> bool:
    """What a watch brings is dated as it comes, at most two seconds after the second that Kueue wrote."""
    return recorded is not None and 0 <= recorded - second < 3


def test_a_missing_right_is_an_error_at_the_start(
    team: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["record", "--out", str(tmp_path / "x.jsonl"), "--for", "1s"]
    assert main([*arguments, "--kubeconfig", str(account(team, TEAM, "stranger"))]) == 3
    assert "cannot list resource" in capsys.readouterr().err
    assert not (tmp_path / "x.jsonl").exists()


def test_the_recorder_of_a_stack_is_accepted_and_records_with_its_own_rights(
    team: ControlPlane, tmp_path: Path
) -> None:
    """The pod is created as the Deployment's controller would; its program runs here."""
    pod = deploy(team, recording_stack())
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": deployed.NAME}
    (container,) = pod["spec"]["containers"]
    out = tmp_path / "recording.jsonl.gz"
    arguments = [f"--out={out}" if each.startswith("--out=") else each for each in container["args"]]
    kubeconfig = account_kubeconfig(team, deployed.NAME)
    process = start_and_watch(
        [sys.executable, *container["command"][1:], *arguments, f"--kubeconfig={kubeconfig}"]
    )
    _submit(team, "deployed", gpus=1, priority=7)
    eventually("the job is recorded", lambda: any(job.priority == 7 for job in load_recording(out).jobs))
    process.terminate()
    assert process.wait(PATIENCE) == 0
    command = [sys.executable, *container["command"][1:], "print", f"--out={out}"]
    copy = tmp_path / "copy.jsonl.gz"
    copy.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    assert load_recording(copy) == load_recording(out)
    team.call("DELETE", f"{WORKLOADS}/deployed")


def test_a_spent_budget_holds_what_would_start_and_leaves_what_runs(
    team: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the rights that a stack gives, with its queue's name in place of the stack's."""
    stack = replace(recording_stack(), budgets=Budgets(teams={"team-a": 1}))
    rules = [rule for rule in deployed.rules(stack) if rule["resources"] == ["localqueues"]]
    named = [{**rule, "resourceNames": [TEAM]} if "resourceNames" in rule else rule for rule in rules]
    credentials = tmp_path / "credentials.json"
    written = account(team, TEAM, "keeper", rules=named).read_text()
    credentials.write_text(json.dumps(yaml.safe_load(written)))
    written_too = {"metadata": {"annotations": {WRITER_ANNOTATION: AGENT}}}
    queue = f"/apis/{KUEUE}/namespaces/{TEAM}/localqueues/{TEAM}"
    team.call("PATCH", queue, written_too, content_type=MERGE)
    team.call("DELETE", WORKLOADS)  # What other tests left has the quota.
    _submit(team, "runs", gpus=1, priority=20)
    _admitted(team, "runs")
    now = time.time()
    pods = PodSet(name="main", count=5000, requests={"nvidia.com/gpu": 1})
    run = Run(reserved=now - 60, admitted=now - 60, flavors=(TEAM,))
    job = Job(id="x", team=TEAM, cluster_queue=TEAM, created=now - 60, pod_sets=(pods,), runs=(run,))
    header = Header(scheduler=Scheduler.KUEUE, start=now - 60, end=now, source="cluster")
    path = tmp_path / "recording.jsonl"
    write_recording(path, Recording(header=header, jobs=(job,)))

    def judge(hours: int) -> Object:
        pool = PoolTerms(name=TEAM, flavor=TEAM, device="nvidia.com/gpu", machine="any", slots=1)
        budget = Budget(team=TEAM, hours=hours, queues=(f"{TEAM}/{TEAM}",))
        order = Order(budgets=(budget,), warn=0.8, terms=Terms(pools=(pool,), teams={TEAM: TEAM}))

        async def once() -> None:
            async with Client(kubeconfig(credentials), field_manager=AGENT, user_agent=AGENT) as client:
                await Keeper(path, order).round(client, now=now)

        asyncio.run(once())
        found: Object = team.call("GET", queue)
        return found

    held = judge(1)
    assert held["spec"] == {"clusterQueue": TEAM, "stopPolicy": "Hold"}
    _submit(team, "late", gpus=1, priority=21)
    eventually("late waits", lambda: _find(_get(team, "late"), "QuotaReserved").get("status") == "False")
    assert _condition(_get(team, "runs"), "Admitted")
    assert main(["why", f"{TEAM}/late", "--kubeconfig", str(team.kubeconfig())]) in (0, 1)
    assert "budget of the team: used 83 of 1 GPU-hours in " in capsys.readouterr().out

    released = judge(1_000_000)
    assert released["spec"] == {"clusterQueue": TEAM, "stopPolicy": "None"}
    assert BUDGET_ANNOTATION not in released["metadata"].get("annotations", {})
    _admitted(team, "late")
    for name in ("runs", "late"):
        team.call("DELETE", f"{WORKLOADS}/{name}")


def _is_private(recording: Recording, by_name: dict[str, Object]) -> None:
    found = repr(recording)
    assert SECRET not in found
    for each in by_name.values():
        assert each["uid"] not in found


def _submit(plane: ControlPlane, name: str, *, gpus: int, priority: int) -> None:
    container = {
        "name": "main",
        "image": SECRET,
        "command": [SECRET],
        "resources": {"requests": {"nvidia.com/gpu": str(gpus)}},
    }
    pod = {"containers": [container], "restartPolicy": "Never"}
    workload = {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {
            "queueName": TEAM,
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": pod}}],
        },
    }
    apply(plane, workload)


def _get(plane: ControlPlane, name: str) -> Object:
    found: Object = plane.call("GET", f"{WORKLOADS}/{name}")
    return found


def _find(workload: Object, kind: str) -> Object:
    conditions = workload.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def _condition(workload: Object, kind: str) -> float | None:
    """Since when a condition is True."""
    found = _find(workload, kind)
    return _seconds(found["lastTransitionTime"]) if found.get("status") == "True" else None


def _admitted(plane: ControlPlane, name: str) -> float:
    def look() -> float | None:
        found = _get(plane, name)
        return None if _condition(found, "Evicted") else _condition(found, "Admitted")

    at: float = eventually(f"{name} is admitted", look)
    return at


def _release(plane: ControlPlane, name: str) -> float:
    """Give the quota back, as a job whose pods are gone."""
    gone = {"status": "False", "reason": "Pending", "message": "Preempted"}
    changes = {"QuotaReserved": gone, "Admitted": {**gone, "reason": "NoReservation"}}
    return _set(plane, name, changes, admission=None)


def _finish(plane: ControlPlane, name: str) -> float:
    finished = {"status": "True", "reason": "Succeeded", "message": "Done"}
    return _set(plane, name, {"Finished": finished})


def _set(plane: ControlPlane, name: str, changes: dict[str, dict[str, str]], **more: Any) -> float:
    found = _get(plane, name)
    now = datetime.now().astimezone().replace(microsecond=0)
    kept = [each for each in found["status"]["conditions"] if each["type"] not in changes]
    fresh = [{"type": kind, "lastTransitionTime": now.isoformat(), **each} for kind, each in changes.items()]
    body = {"status": {"conditions": [*kept, *fresh], **more}}
    plane.call("PATCH", f"{WORKLOADS}/{name}/status", body, content_type=MERGE)
    return now.timestamp()


def _has_ended_run(recorder: RecorderProcess, priority: int) -> bool:
    job = recorder.jobs().get(priority)
    return job is not None and bool(job.runs) and job.runs[0].ended is not None


def _left(recorder: RecorderProcess, priority: int) -> bool:
    job = recorder.jobs().get(priority)
    return job is not None and job.left is not None


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
