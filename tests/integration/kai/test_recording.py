"""`muster record` of a cluster with KAI: PodGroups as KAI's pod-grouper writes them, their pods, and the
Events of KAI's scheduler.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from muster.model import names
from muster.model.stack import Scheduler
from muster.replay.recording import End, Job
from muster.replay.recording_file import load_recording
from tests.integration.recorder import RecorderProcess, account
from tests.kai.definitions import ours
from tests.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from tests.integration.conftest import ApiServer

_SECRET: Final = "hunter2"
_MERGE: Final = "application/strategic-merge-patch+json"
_PRIORITIES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_RULES: Final = [
    {"apiGroups": ["scheduling.run.ai"], "resources": ["podgroups"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["list", "watch"]},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["list", "watch"]},
]


@dataclass
class Team:
    """A namespace of a cluster with KAI."""

    server: ApiServer
    namespace: str

    def submit(self, name: str, *, queue: str, pods: int) -> None:
        """A gang of pods with a GPU each, and the PodGroup that KAI's pod-grouper makes for it."""
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": f"{name}-{_SECRET}",
            "uid": secrets.token_hex(8),
        }
        group = {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": f"pg-{name}", "ownerReferences": [owner]},
            "spec": {"minMember": pods, "queue": queue, "priorityClassName": self.priority(name)},
        }
        self.server.call("POST", self._groups, group)
        for number in range(pods):
            self.server.call("POST", self._pods, self._pod(f"{name}-{number}", name))

    def priority(self, name: str) -> str:
        return f"{self.namespace}-{name}"

    def bind(self, *pods: str) -> None:
        for pod in pods:
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}}
            target = {"target": {"kind": "Node", "name": "node-7"}}
            self.server.call("POST", f"{self._pods}/{pod}/binding", {**body, **target})

    def bound_at(self, pod: str) -> float:
        conditions = self.server.call("GET", f"{self._pods}/{pod}")["status"]["conditions"]
        since = next(each["lastTransitionTime"] for each in conditions if each["type"] == "PodScheduled")
        return datetime.fromisoformat(since).timestamp()

    def end(self, *pods: str) -> float:
        now = datetime.now(UTC).replace(microsecond=0)
        for pod in pods:
            terminated = {"exitCode": 0, "finishedAt": now.isoformat().replace("+00:00", "Z")}
            container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
            status = {
                "phase": "Succeeded",
                "containerStatuses": [{**container, "state": {"terminated": terminated}}],
            }
            self.server.call("PATCH", f"{self._pods}/{pod}/status", {"status": status}, content_type=_MERGE)
        return now.timestamp()

    def evict(self, name: str, *pods: str, by: str) -> float:
        """As KAI's scheduler does: an Event about the PodGroup, and its pods are deleted."""
        now = datetime.now(UTC).replace(microsecond=0)
        notes = {
            "evictor-pod-group-name": f"pg-{by}",
            "evictor-pod-group-namespace": self.namespace,
            "evictor-action-type": "reclaim",
        }
        at = now.isoformat().replace("+00:00", "Z")
        event = {
            "metadata": {"generateName": f"pg-{name}.", "annotations": notes},
            "involvedObject": {"kind": "PodGroup", "namespace": self.namespace, "name": f"pg-{name}"},
            "reason": "Evict",
            "message": _SECRET,
            "type": "Normal",
            "firstTimestamp": at,
            "lastTimestamp": at,
            "source": {"component": "kai-scheduler"},
        }
        self.server.call("POST", f"/api/v1/namespaces/{self.namespace}/events", event)
        for pod in pods:
            self.server.call("DELETE", f"{self._pods}/{pod}?gracePeriodSeconds=0")
        return now.timestamp()

    def remove(self, name: str) -> None:
        self.server.call("DELETE", f"{self._groups}/pg-{name}")

    def _pod(self, name: str, group: str) -> dict[str, Any]:
        resources = {"requests": {"cpu": "1"}, "limits": {names.GPU_RESOURCE: "1"}}
        container = {"name": "main", "image": _SECRET, "command": [_SECRET], "resources": resources}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": {"pod-group-name": f"pg-{group}"}},
            "spec": {
                "schedulerName": names.KAI_SCHEDULER,
                "nodeSelector": {names.POOL_LABEL: "h100"},
                "containers": [container],
            },
        }

    @property
    def _groups(self) -> str:
        return f"/apis/scheduling.run.ai/v2alpha2/namespaces/{self.namespace}/podgroups"

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"


@pytest.fixture
def team(api_server: ApiServer) -> Iterator[Team]:
    definition = ours()["podgroups.scheduling.run.ai"]
    api_server.define([definition])
    found = Team(api_server, f"team-{secrets.token_hex(3)}")
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": found.namespace}}
    api_server.apply(body, f"/api/v1/namespaces/{found.namespace}")
    default = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    api_server.apply(default, f"/api/v1/namespaces/{found.namespace}/serviceaccounts/default")
    classes = {found.priority(name): value for name, value in (("low", 50), ("high", 75), ("brief", 60))}
    for name, value in classes.items():
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        api_server.call("POST", _PRIORITIES, {**head, "value": value})
    try:
        yield found
    finally:
        path = f"/api/v1/namespaces/{found.namespace}/pods?gracePeriodSeconds=0"
        api_server.call("DELETE", path)
        for name in classes:
            api_server.call("DELETE", f"{_PRIORITIES}/{name}")
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        with contextlib.suppress(urllib.error.HTTPError):
            api_server.call("DELETE", f"{crds}/{definition['metadata']['name']}")


def test_a_recording_of_kai_equals_what_happened(team: Team, tmp_path: Path) -> None:
    team.submit("low", queue="vision", pods=2)
    team.bind("low-0", "low-1")
    first = team.bound_at("low-1")
    kubeconfig = account(team.server, team.namespace, f"recorder-{team.namespace}", rules=_RULES)
    recorder = RecorderProcess(kubeconfig, tmp_path / "day.jsonl.gz")
    process = recorder.start()

    team.submit("high", queue="speech", pods=2)
    evicted = team.evict("low", "low-0", "low-1", by="high")
    eventually("the eviction is recorded", lambda: _runs(recorder, 50) and _runs(recorder, 50)[0].ended)
    process.kill()
    process.wait()

    team.bind("high-0", "high-1")
    high = team.bound_at("high-1")
    process = recorder.start()
    done = team.end("high-0", "high-1")
    team.submit("brief", queue="vision", pods=1)
    eventually("brief waits", lambda: 60 in recorder.jobs())
    team.remove("brief")
    eventually("brief has left", lambda: recorder.jobs()[60].left is not None)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0

    recording, jobs = load_recording(recorder.out), recorder.jobs()
    assert recording.header.scheduler is Scheduler.KAI
    assert recording.warnings == ()
    assert _SECRET not in repr(recording)
    (run,) = jobs[50].runs
    assert (run.admitted, run.evicted, run.end, run.reason) == (first, evicted, End.PREEMPTED, "reclaim")
    assert (run.by, jobs[50].left, jobs[50].team) == (jobs[75].id, None, "vision")
    (run,) = jobs[75].runs
    assert (run.admitted, run.ended, run.end) == (high, done, End.FINISHED)
    assert (jobs[75].left, jobs[75].outcome) == (done, End.FINISHED)
    assert (jobs[60].runs, jobs[60].outcome) == ((), End.DELETED)
    (pods,) = jobs[75].pod_sets
    assert (pods.count, pods.requests, pods.pools) == (2, {"cpu": 1000, names.GPU_RESOURCE: 1}, ("h100",))


def _runs(recorder: RecorderProcess, priority: int) -> Any:
    job: Job | None = recorder.jobs().get(priority)
    return () if job is None else job.runs
