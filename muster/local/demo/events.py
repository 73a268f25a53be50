"""From API objects to what happened, in a line each, for people or as JSON.

A snapshot of objects in, moments out. A moment's key holds the time of its condition, so that the
second attempt of a gang gives events as the first did, and each event is shown once.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final, TextIO

from muster.local.demo.cluster import Object
from muster.model import names

POOL: Final = names.POOL_LABEL
_GANG_UIDS: Final = (names.WORKLOAD_UID_LABEL, names.RAY_CLUSTER_UID_LABEL)
RETRY_AT: Final = names.RETRY_AT_ANNOTATION
LAST_FAILURE: Final = names.LAST_FAILURE_ANNOTATION
JOB_KINDS: Final = ("RayJob", "RayCluster", "RayService", "Job")
# KubeRay makes a RayCluster for each of them, and gives it a name of this form.
_MADE: Final = dict.fromkeys(("RayJob", "RayService"), "-[a-z0-9]{5}")
# Of a RayService: that its Serve application answers (KubeRay 1.6.2, apis/ray/v1/rayservice_types.go).
_CONDITIONS: Final = {"RayService": ("Ready",), "Job": ("Complete", "Failed")}


class Mood(StrEnum):
    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `at` is the object's own time, where it has one (RFC 3339, whole seconds)."""

    key: str
    who: str
    text: str
    at: str | None = None
    mood: Mood = Mood.PLAIN


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a namespace and the nodes look like now, by kind."""

    objects: Mapping[str, Sequence[Object]] = field(default_factory=dict)

    def of(self, kind: str) -> Sequence[Object]:
        return self.objects.get(kind, ())

    def find(self, kind: str, name: str) -> Object | None:
        return next((found for found in self.of(kind) if name_of(found) == name), None)

    def workload_of(self, job: Object) -> Object | None:
        """Kueue's Workload of a job."""
        uid = job["metadata"].get("uid")
        return next((found for found in self.of("Workload") if uid in owners(found)), None)


def events_of(now: Snapshot, jobs: Iterable[str]) -> list[Event]:
    """All events of the jobs of these names in a snapshot, in the order of a gang's life."""
    events: list[Event] = []
    for kind in JOB_KINDS:
        for job in now.of(kind):
            if name_of(job) in jobs:
                events += _of_job(now, kind, job)
    return events


def name_of(found: Object) -> str:
    return str(found["metadata"]["name"])


def owners(found: Object) -> set[str]:
    return {str(owner.get("uid")) for owner in found["metadata"].get("ownerReferences") or ()}


def condition(found: Object, kind: str) -> Object | None:
    conditions: Sequence[Object] = (found.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), None)


def holds(found: Object, kind: str) -> bool:
    one = condition(found, kind)
    return one is not None and one.get("status") == "True"


def pods_of(now: Snapshot, job: Object) -> list[Object]:
    """Pods of a Job, of a RayCluster, or of the clusters that a RayJob or a RayService made.

    A suspended RayJob no longer names its cluster while its pods are deleted: the name's form identifies it.
    """
    name = name_of(job)
    made = re.compile(re.escape(name) + _MADE.get(str(job.get("kind")), ""))
    found = []
    for pod in now.of("Pod"):
        labels = pod["metadata"].get("labels") or {}
        cluster = labels.get("ray.io/cluster", "")
        if made.fullmatch(cluster) or labels.get("batch.kubernetes.io/job-name") == name:
            found.append(pod)
    return found


def requests_of(now: Snapshot, gang: Object) -> list[Object]:
    """ProvisioningRequests of a Workload or a Ray cluster, by Muster's label or Kueue's owner reference."""
    uid = gang["metadata"]["uid"]
    found = [
        request
        for request in now.of("ProvisioningRequest")
        if any((request["metadata"].get("labels") or {}).get(label) == uid for label in _GANG_UIDS)
        or uid in owners(request)
    ]
    return sorted(found, key=lambda request: int(request["metadata"].get("resourceVersion", 0)))


def is_gated(pod: Object) -> bool:
    """Whether the pod waits at Muster's gate, as a gang with KAI does for its nodes."""
    return any(gate["name"] == names.GANG_GATE for gate in pod["spec"].get("schedulingGates") or ())


def pool_of(now: Snapshot, request: Object) -> str:
    """The pool that a request's pod templates select; `?` before they can be seen."""
    names = {pod_set["podTemplateRef"]["name"] for pod_set in request["spec"]["podSets"]}
    for template in now.of("PodTemplate"):
        if name_of(template) in names:
            selector = template["template"].get("spec", {}).get("nodeSelector") or {}
            return str(selector.get(POOL, "?"))
    return "?"


def is_on_hold(workload: Object) -> bool:
    """Deactivated for good, and not by the gang controller until its next try."""
    notes = workload["metadata"].get("annotations") or {}
    return workload["spec"].get("active") is False and RETRY_AT not in notes


def _of_job(now: Snapshot, kind: str, job: Object) -> Iterator[Event]:
    who, uid = name_of(job), job["metadata"]["uid"]
    yield Event(f"{uid}/created", who, f"{kind} created", job["metadata"].get("creationTimestamp"))
    workload = now.workload_of(job)
    if workload is not None:
        yield from _of_workload(workload, who)
        for request in requests_of(now, workload):
            yield from _of_request(request, who, pool_of(now, request))
        yield from _of_admission(workload, who)
    else:
        for cluster in now.of("RayCluster"):
            if uid == cluster["metadata"]["uid"] or uid in owners(cluster):
                for request in requests_of(now, cluster):
                    yield from _of_request(request, who, pool_of(now, request))
    for pod in pods_of(now, job):
        yield from _of_pod(pod, who)
    yield from _of_state(kind, job, who)


def _of_workload(workload: Object, who: str) -> Iterator[Event]:
    uid, queue = workload["metadata"]["uid"], workload["spec"].get("queueName")
    yield Event(
        f"{uid}/queued",
        who,
        f"suspended, waits in queue {queue}",
        workload["metadata"].get("creationTimestamp"),
    )
    reserved = condition(workload, "QuotaReserved")
    if reserved is not None and reserved["status"] == "True":
        since = reserved["lastTransitionTime"]
        yield Event(f"{uid}/quota/{since}", who, f"quota reserved: {_flavors(workload)}", since)
    elif reserved is not None:
        yield Event(f"{uid}/pending/{reserved['message']}", who, f"waits: {reserved['message']}")
    evicted = condition(workload, "Evicted")
    if evicted is not None and evicted["status"] == "True":
        since = evicted["lastTransitionTime"]
        text = f"evicted ({evicted.get('reason')}): {evicted.get('message')}"
        yield Event(f"{uid}/evicted/{since}", who, text, since, Mood.BAD)


def _flavors(workload: Object) -> str:
    """`head on cpu, l4 on l4`."""
    assigned = ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ()
    return ", ".join(
        f"{one['name']} on {'+'.join(sorted(set((one.get('flavors') or {}).values())))}" for one in assigned
    )


def _of_request(request: Object, who: str, pool: str) -> Iterator[Event]:
    if pool == "?":
        return  # its template comes with the next snapshot
    uid, name = request["metadata"]["uid"], name_of(request)
    count = sum(int(pod_set["count"]) for pod_set in request["spec"]["podSets"])
    asked = f"{pool}: asked for {count} node{'s' * (count != 1)} ({name})"
    yield Event(f"{uid}/asked", who, asked, request["metadata"].get("creationTimestamp"))
    for kind in ("Accepted", "Provisioned", "BookingExpired", "CapacityRevoked", "Failed"):
        one = condition(request, kind)
        if one is None or one["status"] != "True":
            continue
        bad = kind not in ("Accepted", "Provisioned")
        text = f"{pool}: {kind}" + (f": {one.get('reason')}: {one.get('message')}" if bad else "")
        yield Event(f"{uid}/{kind}", who, text, one["lastTransitionTime"], Mood.BAD if bad else Mood.GOOD)


def _of_admission(workload: Object, who: str) -> Iterator[Event]:
    uid = workload["metadata"]["uid"]
    for check in (workload.get("status") or {}).get("admissionChecks") or ():
        message = str(check.get("message", ""))
        if message and not message.startswith("Reset to Pending"):
            state = "" if check["state"] == "Pending" else f" {check['state']}"
            mood = {"Ready": Mood.GOOD, "Retry": Mood.BAD, "Rejected": Mood.BAD}.get(
                check["state"], Mood.PLAIN
            )
            yield Event(
                f"{uid}/check/{check['state']}/{message}",
                who,
                f"check {check['name']}{state}: {message}",
                None,
                mood,
            )
    admitted = condition(workload, "Admitted")
    if admitted is not None and admitted["status"] == "True":
        since = admitted["lastTransitionTime"]
        yield Event(f"{uid}/admitted/{since}", who, "admitted: its pods may start", since, Mood.GOOD)
    yield from _of_waiting(workload, who)
    if is_on_hold(workload):
        yield Event(f"{uid}/on-hold", who, "deactivated: it will not be tried again", None, Mood.BAD)


def _of_waiting(workload: Object, who: str) -> Iterator[Event]:
    """A released gang: Kueue has taken its check off the Workload, the annotations say why and until when."""
    notes = workload["metadata"].get("annotations") or {}
    until = notes.get(RETRY_AT)
    if until and workload["spec"].get("active") is False:
        why = notes.get(LAST_FAILURE, "no reason given")
        text = f"released everything, holds no quota, tries again at {until}: {why}"
        yield Event(f"{workload['metadata']['uid']}/released/{until}", who, text, None, Mood.BAD)


def _of_pod(pod: Object, who: str) -> Iterator[Event]:
    uid, status = pod["metadata"]["uid"], pod.get("status") or {}
    where = f"pod {name_of(pod)}"
    node = pod["spec"].get("nodeName")
    if status_of_gang := (pod["metadata"].get("annotations") or {}).get(names.GANG_STATUS_ANNOTATION):
        yield Event(f"{uid}/gang/{status_of_gang}", who, f"gang: {status_of_gang}")
    if node:
        yield Event(f"{uid}/bound", who, f"{where} starts on node {node}")
    else:
        yield Event(f"{uid}/created", who, f"{where} created", pod["metadata"].get("creationTimestamp"))
    if holds(pod, "Ready"):
        yield Event(f"{uid}/ready", who, f"{where} is ready", None, Mood.GOOD)
    if status.get("phase") == "Failed" and not pod["metadata"].get("deletionTimestamp"):
        yield Event(
            f"{uid}/failed",
            who,
            f"{where} failed: {status.get('reason') or status.get('message') or '?'}",
            None,
            Mood.BAD,
        )


def _of_state(kind: str, job: Object, who: str) -> Iterator[Event]:
    uid, status = job["metadata"]["uid"], job.get("status") or {}
    if kind == "RayJob":
        begun = status.get("startTime") or ""
        for word in (status.get("jobDeploymentStatus"), status.get("jobStatus")):
            if word and word != "Suspended":
                yield Event(f"{uid}/{begun}/{word}", who, f"RayJob {word}", None, _mood(word))
    elif kind == "RayCluster":
        word = status.get("state")
        since = status.get("stateTransitionTimes", {}).get(word, "")
        if word:
            yield Event(f"{uid}/{word}/{since}", who, f"RayCluster {word}", since or None, _mood(word))
    else:
        for word in _CONDITIONS[kind]:
            if holds(job, word):
                yield Event(f"{uid}/{word}", who, f"{kind} {word}", None, _mood(word))


def _mood(word: str) -> Mood:
    if word in ("SUCCEEDED", "Complete", "RUNNING", "Running", "Ready", "ready"):
        return Mood.GOOD
    return Mood.BAD if word in ("FAILED", "STOPPED", "Failed", "ValidationFailed", "failed") else Mood.PLAIN


_COLOURS: Final = {Mood.GOOD: "\033[32m", Mood.BAD: "\033[31m", Mood.PLAIN: ""}
_DIM: Final = "\033[2m"
_OFF: Final = "\033[0m"


class Screen:
    """Prints seconds since the story began, of whom, and what. Several threads speak; after the end none."""

    def __init__(self, *, as_json: bool, out: TextIO = sys.stdout) -> None:
        self._json = as_json
        self._out = out
        self._begun = time.monotonic()
        self._writing = threading.Lock()
        self._is_over = False
        self._colours = not as_json and out.isatty() and not os.environ.get("NO_COLOR")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def show(self, event: Event) -> None:
        if self._json:
            self._write(json.dumps({"seconds": round(self.seconds, 1), **asdict(event)}))
            return
        stamp = f"{self.seconds:6.1f} s"
        self._write(f"{self._dim(stamp)}  {event.who:<9} {self._coloured(event.text, _COLOURS[event.mood])}")

    def say(self, text: str) -> None:
        """A sentence between the lines."""
        if self._json:
            self._write(json.dumps({"seconds": round(self.seconds, 1), "text": text}))
        else:
            self._write(text)

    def end(self, *, reason: str | None) -> None:
        """The last line: that the story ended well, or why not."""
        if self._json:
            result = "failed" if reason else "succeeded"
            line = json.dumps({"result": result, "seconds": round(self.seconds, 1), "reason": reason})
        elif reason:
            line = self._coloured(f"FAILED after {self.seconds:.0f} s: {reason}", _COLOURS[Mood.BAD])
        else:
            line = self._coloured(f"done in {self.seconds:.0f} s", _COLOURS[Mood.GOOD])
        self._write(line, is_last=True)

    def _dim(self, text: str) -> str:
        return self._coloured(text, _DIM)

    def _coloured(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_OFF}" if self._colours and colour else text

    def _write(self, line: str, *, is_last: bool = False) -> None:
        with self._writing:
            if not self._is_over:
                print(line, file=self._out, flush=True)
            self._is_over = self._is_over or is_last
