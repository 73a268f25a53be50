"""Follows jobs on a cluster and reports events until a condition holds.

Reads once a second: a handful of small lists over one connection. What came and went between two reads
still shows in the times of the conditions.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import yaml

from muster.errors import ExitCode, MusterError
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.local.demo.cluster import Cluster, Object
from muster.local.demo.events import (
    JOB_KINDS,
    POOL,
    Event,
    Mood,
    Screen,
    Snapshot,
    condition,
    events_of,
    holds,
    is_on_hold,
    name_of,
    pods_of,
)
from muster.local.simulated_cloud import names
from muster.local.simulated_cloud.faults import FaultKind
from muster.local.simulated_cloud.script import XID_CONDITION
from muster.paths import EXAMPLES

_INTERVAL: Final = 1.0
_LOG_READS: Final = 60
# After so long without an event the state is shown, so that nothing looks hung.
_QUIET: Final = 15.0
_KINDS: Final = (*JOB_KINDS, "Workload", "ProvisioningRequest", "PodTemplate", "Pod")


class StoryError(MusterError):
    """The story did not end as it should; the message has the last state."""

    default_exit_code = ExitCode.FOUND


class Follower:
    """One story. `namespace`: of its programs; `others`: where its jobs run too."""

    def __init__(
        self,
        cluster: Cluster,
        screen: Screen,
        *,
        namespace: str,
        others: tuple[str, ...] = (),
        timeout: float,
    ) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._namespaces = (namespace, *others)
        self._screen = screen
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._jobs: dict[str, Object] = {}
        self._applied: list[Object] = []
        self._shown: set[str] = set()
        self._standing: dict[str, Event] = {}
        self._nodes_before = {name_of(node) for node in cluster.all("Node")}
        self._logs: set[str] = set()
        self._showing = threading.Lock()
        self._last_shown = time.monotonic()

    # -- doing ---------------------------------------------------------------------------------

    def apply(self, file: str, *, images: dict[str, str], programs: dict[str, str]) -> None:
        """Apply a file of examples/; `programs` become the ConfigMaps that its pods mount."""
        for name, path in programs.items():
            self._apply(_config_map(name, self.namespace, EXAMPLES / path))
        text = (EXAMPLES / file).read_text()
        for placeholder, image in images.items():
            text = text.replace(placeholder, image)
        for manifest in yaml.safe_load_all(text):
            if manifest["kind"] in JOB_KINDS:
                self._jobs[name_of(manifest)] = manifest
                self._clear(manifest)
            self._apply(manifest)
        self._screen.say(f"$ kubectl apply -f examples/{file}")

    def say(self, text: str) -> None:
        """A sentence between the events."""
        self._screen.say(text)

    def stock(self, **nodes: int) -> None:
        """Set what the local cluster's cloud has of these pools, as `muster local capacity` does."""
        change = {"data": {"capacity": json.dumps(nodes)}}
        self.cluster.patch("ConfigMap", names.FAULTS_CONFIG, change, namespace=names.NAMESPACE)
        for pool, count in nodes.items():
            self.say(f"$ muster local capacity {pool} {count}")

    def delay(self, pool: str, seconds: int) -> None:
        """Have the cloud be late with the next request of this pool, as `muster local fault` does."""
        entry = {"pool": pool, "kind": FaultKind.DELAY, "by": f"{seconds}s", "count": 1}
        change = {"data": {f"story-{pool}": json.dumps(entry)}}
        self.cluster.patch("ConfigMap", names.FAULTS_CONFIG, change, namespace=names.NAMESPACE)
        self.say(f"$ muster local fault {pool} delay --by {seconds}s --count 1")

    def break_node(self, name: str) -> None:
        """As `muster local fault node` does."""
        condition = {"type": XID_CONDITION, "status": "True", "reason": "XID79"}
        self.cluster.patch_status("Node", name, {"conditions": [condition]})
        self.say(f"$ muster local fault node {name} --xid 79")

    def delete(self, kind: str, name: str) -> None:
        """Delete a job of this story."""
        namespace = self._jobs.pop(name)["metadata"]["namespace"]
        self.say(f"$ kubectl -n {namespace} delete {kind.lower()} {name}")
        self.cluster.delete(kind, name, namespace=namespace)

    def clean_up(self) -> None:
        """Delete what the story made, the last first."""
        for manifest in reversed(self._applied):
            meta = manifest["metadata"]
            self.cluster.delete(manifest["kind"], meta["name"], namespace=meta.get("namespace"))
        self._applied.clear()

    def _apply(self, manifest: Object) -> None:
        self._applied.append(manifest)
        self.cluster.apply(manifest)

    def _clear(self, manifest: Object) -> None:
        """A job of an earlier run must go first: a finished one would not run again."""
        kind, name, namespace = manifest["kind"], name_of(manifest), manifest["metadata"]["namespace"]
        if self.cluster.get(kind, name, namespace=namespace) is None:
            return
        self._screen.say(f"deleting {kind} {name} of an earlier run")
        self.cluster.delete(kind, name, namespace=namespace)
        while self.cluster.get(kind, name, namespace=namespace) is not None:
            self._check_time(f"{kind} {name} of an earlier run is still being deleted")
            time.sleep(_INTERVAL)

    # -- following -----------------------------------------------------------------------------

    def until(self, what: str, reached: Callable[[Snapshot], bool]) -> Snapshot:
        """Show every event until the condition holds. Raises StoryError after the timeout or a failed job."""
        while True:
            now = self.look()
            if reached(now):
                return now
            self._check_failures(now)
            self._check_time(f"waited for: {what}. {self._standing_of(now)}")
            if time.monotonic() > self._last_shown + _QUIET:
                self._last_shown = time.monotonic()
                self._screen.say(f"           waits for: {what}. {self._standing_of(now)}")
            time.sleep(_INTERVAL)

    def look(self) -> Snapshot:
        lists = {
            kind: [each for space in self._namespaces for each in self.cluster.all(kind, namespace=space)]
            for kind in _KINDS
        }
        now = Snapshot({**lists, "Node": self.cluster.all("Node")})
        for event in [*self._of_nodes(now), *events_of(now, self._jobs)]:
            self._show(event)
        self._show_gone(now)
        self._follow_logs(now)
        return now

    def new_nodes(self, now: Snapshot) -> list[str]:
        """Nodes that have joined since the story began."""
        return [name_of(node) for node in now.of("Node") if name_of(node) not in self._nodes_before]

    def _show(self, event: Event) -> None:
        with self._showing:  # several pods speak at once
            if event.key not in self._shown:
                self._shown.add(event.key)
                self._last_shown = time.monotonic()
                self._screen.show(event)

    def _of_nodes(self, now: Snapshot) -> list[Event]:
        events = []
        for node in now.of("Node"):
            if name_of(node) in self._nodes_before:
                continue
            pool = (node["metadata"].get("labels") or {}).get(POOL, "?")
            uid, text = node["metadata"]["uid"], f"node {name_of(node)} of pool {pool}"
            events.append(
                Event(f"{uid}/joined", "nodes", f"{text} joins", node["metadata"].get("creationTimestamp"))
            )
            if holds(node, "Ready"):
                events.append(Event(f"{uid}/ready", "nodes", f"{text} is ready", None, Mood.GOOD))
        return events

    def _show_gone(self, now: Snapshot) -> None:
        """Pods and nodes leave no condition behind: that they are gone shows only against the look before."""
        standing: dict[str, Event] = {}
        for node in self._of_nodes(now):
            uid = node.key.partition("/")[0]
            name = node.text.split()[1]
            standing.setdefault(uid, Event(f"{uid}/gone", "nodes", f"node {name} is released"))
        for kind in JOB_KINDS:
            for job in now.of(kind):
                for pod in pods_of(now, job) if name_of(job) in self._jobs else ():
                    uid = pod["metadata"]["uid"]
                    standing[uid] = Event(f"{uid}/gone", name_of(job), f"pod {name_of(pod)} is gone")
        for uid, event in self._standing.items():
            if uid not in standing:
                self._show(event)
        self._standing = standing

    def _check_failures(self, now: Snapshot) -> None:
        for name, manifest in self._jobs.items():
            kind, namespace = manifest["kind"], manifest["metadata"]["namespace"]
            job = now.find(kind, name)
            if job is None:
                raise StoryError(f"{kind} {namespace}/{name} has been deleted")
            status = job.get("status") or {}
            failed = status.get("jobDeploymentStatus") in ("Failed", "ValidationFailed")
            if (
                failed
                or status.get("jobStatus") in ("FAILED", "STOPPED")
                or (kind == "Job" and holds(job, "Failed"))
            ):
                reason = status.get("message") or status.get("reason") or status.get("jobStatus")
                raise StoryError(f"{kind} {namespace}/{name} failed: {reason}")
            workload = now.workload_of(job)
            if workload is not None and is_on_hold(workload):
                checks = (workload.get("status") or {}).get("admissionChecks") or ()
                said = "; ".join(str(check.get("message")) for check in checks)
                raise StoryError(f"Workload {namespace}/{name_of(workload)} was deactivated: {said}")

    def _check_time(self, where: str) -> None:
        if time.monotonic() > self._deadline:
            raise StoryError(f"not finished in {self._timeout:.0f} s; {where}")

    def _standing_of(self, now: Snapshot) -> str:
        said = []
        for name, manifest in self._jobs.items():
            kind = manifest["kind"]
            job = now.find(kind, name)
            status = (job or {}).get("status") or {}
            state = status.get("jobDeploymentStatus") or status.get("state") or "no state yet"
            workload = now.workload_of(job) if job else None
            pods = pods_of(now, job) if job else []
            ready = f"{sum(holds(pod, 'Ready') for pod in pods)} of {len(pods)} pods ready"
            said.append("; ".join([f"{kind} {name}: {state}, {ready}", *_waits_for(workload or {})]))
        return ". ".join(said)

    # -- the jobs' output -------------------------------------------------------------------

    def _follow_logs(self, now: Snapshot) -> None:
        """What the program prints, from the log of its first pod."""
        for name, manifest in self._jobs.items():
            kind = manifest["kind"]
            job = now.find(kind, name)
            for pod in pods_of(now, job) if job else ():
                labels = pod["metadata"].get("labels") or {}
                speaks = kind == "Job" or labels.get("ray.io/node-type") == "head"
                started = (pod.get("status") or {}).get("phase") in ("Running", "Succeeded")
                if speaks and started and pod["metadata"]["uid"] not in self._logs:
                    self._logs.add(pod["metadata"]["uid"])
                    threading.Thread(target=self._read_log, args=(name, pod), daemon=True).start()

    def _read_log(self, who: str, pod: Object) -> None:
        """On a busy machine a stream is refused or cut: it is read again from its beginning, while the pod is
        there to be read.
        """
        for _ in range(_LOG_READS):
            try:
                self._show_log(who, pod)
                is_read = True
            except (ApiError, UnreachableError):
                is_read = False
            try:
                phase = self._phase(pod)
            except (ApiError, UnreachableError):
                phase = "Running"  # it was the last time
            if not phase or (is_read and phase != "Running"):
                return
            time.sleep(_INTERVAL)

    def _phase(self, pod: Object) -> str:
        """Of this very pod; empty when it is gone."""
        found = self.cluster.get("Pod", name_of(pod), namespace=pod["metadata"]["namespace"])
        if found is None or found["metadata"]["uid"] != pod["metadata"]["uid"]:
            return ""
        return str((found.get("status") or {}).get("phase") or "Pending")

    def _show_log(self, who: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        lines = self.cluster.log(name_of(pod), namespace=pod["metadata"]["namespace"])
        for number, line in enumerate(lines):
            if line.startswith("[train] "):
                self._show(Event(f"{uid}/log/{number}", who, "| " + line.removeprefix("[train] ")))


def _waits_for(workload: Object) -> list[str]:
    """What Kueue and the checks say of a Workload that is not running."""
    reserved = condition(workload, "QuotaReserved")
    quota = [f"quota: {reserved.get('message')}"] if reserved and reserved["status"] != "True" else []
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    return [*quota, *(f"check {one['name']} {one['state']}: {one.get('message')}" for one in checks)]


def _config_map(name: str, namespace: str, path: Path) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {path.name: path.read_text()},
    }
