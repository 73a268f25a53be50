"""A tenant that is a program: drawn sequences of what a member may send, on the real Kueue and KubeRay.

On demand: `make tenant STEPS=500`. After each step the oracle asks whether the team has more devices than
Kueue has reserved for it, for longer than the backstop lets it; whether a controller has ended; and at the
end of a sequence whether another team gets its guarantee. The steps of the shortest sequence that failed are
in the file that `MUSTER_TENANT_FILE` names.

`MUSTER_TENANT_WITHOUT=policies,backstop` leaves these out, which shows that the oracle notices.
"""

import json
import os
import threading
import time
import urllib.error
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from muster.config import load
from muster.local import envtest
from muster.local.envtest.process import Process
from muster.model import names
from muster.model.stack import Stack
from muster.render import queues, tenancy
from tests.integration.kueue_api.conftest import world_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import plain, with_gpu, work
from tests.integration.kueue_api.world import KUEUE, MERGE, World
from tests.integration.pod_autoscaler import make_node, scheduler
from tests.integration.tenancy.cluster import Caller, account

Object = dict[str, Any]

STEPS: Final = int(os.environ.get("MUSTER_TENANT_STEPS", "0"))
A_SEQUENCE: Final = 8
"""Steps of one sequence, after which the team's work is removed."""
KEPT_IN: Final = Path(os.environ.get("MUSTER_TENANT_FILE", "/tmp/muster-tenant.json"))
WITHOUT: Final = frozenset(filter(None, os.environ.get("MUSTER_TENANT_WITHOUT", "").split(",")))
TEAM, OTHER = "team-b", "team-a"
GUARANTEE: Final = 2
GRACE: Final = 60 + 2 * 20 + 20
"""Seconds: the backstop's minute, two of its looks, and what a busy machine adds."""
_HOLD: Final = {"redisAddress": "redis:6379"}

_AT: Final = {
    "RayCluster": ("ray.io/v1", "rayclusters"),
    "RayJob": ("ray.io/v1", "rayjobs"),
    "Job": ("batch/v1", "jobs"),
    "Pod": ("v1", "pods"),
    "Secret": ("v1", "secrets"),
}
_INVALID: Final = {"spec": {"headGroupSpec": {"rayStartParams": {"labels": "a=b"}}}}
# What a member may try on anything that it sees. Most of it is refused.
_CHANGES: Final[tuple[Object, ...]] = (
    _INVALID,
    {"spec": {"backoffLimit": -1}},
    {"spec": {"suspend": False}},
    {"spec": {"suspend": True}},
    {"spec": {"rayVersion": "none"}},
    {"spec": {"runtimeEnvYAML": ": :"}},
    {"spec": {"parallelism": 4, "completions": 4}},
    {"spec": {"activeDeadlineSeconds": 1}},
    {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}},
    {"spec": {"ttlSecondsAfterFinished": 100000}},
    {"spec": {"shutdownAfterJobFinishes": False}},
    {"spec": {"gcsFaultToleranceOptions": _HOLD}},
    {"spec": {"enableInTreeAutoscaling": True}},
    {"spec": {"rayClusterSpec": {"rayVersion": "none"}}},
    {"metadata": {"annotations": {"ray.io/ft-enabled": "false"}}},
    {"metadata": {"annotations": {names.ELASTIC_JOB: "true"}}},
    {"metadata": {"labels": {names.QUEUE_LABEL: None}}},
    {"metadata": {"labels": {names.QUEUE_LABEL: "none"}}},
    {"metadata": {"labels": {names.KUBERAY_ORIGIN_LABEL: None}}},
    {"metadata": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "none"}}},
    {"metadata": {"finalizers": ["example.com/kept"]}},
    {"metadata": {"ownerReferences": None}},
    {"data": None},
)
_DELETIONS: Final[tuple[Object, ...]] = (
    {"propagationPolicy": "Background"},
    {"propagationPolicy": "Foreground"},
    {"propagationPolicy": "Orphan"},
    {"propagationPolicy": "Background", "gracePeriodSeconds": 100},
)


@dataclass(slots=True)
class Ground:
    """The cluster of all sequences, and its member."""

    world: World
    member: Caller
    processes: list[Process]
    steps: list[Object] = field(default_factory=list)

    def path(self, kind: str, name: str = "", team: str = TEAM) -> str:
        version, plural = _AT[kind]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        return f"{root}/namespaces/{team}/{plural}{f'/{name}' if name else ''}"

    def found(self, *kinds: str) -> list[tuple[str, Object]]:
        """What there is of these kinds, each with its kind: work before pods."""
        return [(kind, each) for kind in kinds for each in self.world.items(self.path(kind))]

    def ask(self, step: str, method: str, path: str, body: Object | None = None) -> None:
        """As the member, whatever the answer is."""
        kind = MERGE if method == "PATCH" else "application/json"
        answer = self.member.send(method, path, body, kind)
        self.steps.append({"step": step, "path": path, "body": body, "answer": answer.code})
        print(f"{step} {path}: {answer.code}, {self.running()} on {self.reserved()}", flush=True)

    # The oracle

    def running(self, team: str = TEAM) -> int:
        """Devices of pods on nodes that nobody has told to end."""
        return sum(
            int(one["resources"].get("limits", {}).get(names.GPU_RESOURCE, 0))
            for each in self.world.items(self.path("Pod", team=team))
            if each["spec"].get("nodeName")
            and "deletionTimestamp" not in each["metadata"]
            and each["status"].get("phase") not in ("Succeeded", "Failed")
            for one in each["spec"]["containers"]
        )

    def reserved(self) -> int:
        """By Kueue's own account."""
        status = self.world.plane.call("GET", f"{KUEUE}/clusterqueues/{TEAM}").get("status") or {}
        return sum(
            int(each.get("total", 0))
            for flavor in status.get("flavorsReservation") or ()
            for each in flavor["resources"]
            if each["name"] == names.GPU_RESOURCE
        )

    def settle(self) -> None:
        """Until nothing changes for a second, or ten have passed."""
        end, last, since = time.monotonic() + 10, None, time.monotonic()
        while time.monotonic() < end and time.monotonic() < since + 1:
            now = (self.running(), self.reserved(), len(self.found("Pod", "RayCluster")))
            if now != last:
                last, since = now, time.monotonic()
            time.sleep(0.2)

    def check(self) -> None:
        ended = [each.name for each in self.processes if not each.is_alive]
        assert not ended, f"{ended} ended by itself"
        end = time.monotonic() + GRACE
        while self.running() > self.reserved():
            assert time.monotonic() < end, f"{self.running()} devices on the quota of {self.reserved()}"
            time.sleep(0.5)

    def guarantee(self) -> None:
        """The other team gets all that it is promised."""
        body = _named(work("Job", with_gpu("l4"), count=GUARANTEE), "promised", OTHER)
        apply(self.world.plane, body)
        end = time.monotonic() + GRACE
        while self.running(OTHER) < GUARANTEE:
            assert time.monotonic() < end, f"{OTHER} waits for its guarantee"
            time.sleep(0.5)
        self.world.delete(self.path("Job", "promised", OTHER))

    def clear(self) -> None:
        """By an administrator, who takes every finalizer off."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            left = [
                self.path(kind, each["metadata"]["name"], team)
                for team in (TEAM, OTHER)
                for kind in ("RayJob", "RayCluster", "Job", "Pod")
                for each in self.world.items(self.path(kind, team=team))
            ]
            if not left:
                return
            for path in left:
                self.world.delete(path)
                with_none = {"metadata": {"finalizers": None}}
                try:
                    self.world.plane.call("PATCH", path, with_none, content_type=MERGE)
                except urllib.error.HTTPError as error:
                    if error.code != 404:
                        raise
            time.sleep(0.5)
        raise AssertionError("what a sequence left cannot be removed")


def _named(body: Object, name: str, team: str = TEAM) -> Object:
    body["metadata"] |= {"name": name, "namespace": team}
    return body


_WORK: Final = st.sampled_from(("RayCluster", "RayJob", "Job"))
_ANY: Final = st.integers(0, 9)


class Tenant(RuleBasedStateMachine):
    """What a member's program does. `ground` is set by the test."""

    ground: Ground

    def __init__(self) -> None:
        super().__init__()
        self.ground.clear()
        self.ground.steps.clear()
        self._made = 0

    @initialize(kind=_WORK, count=st.integers(1, 2), fault_tolerant=st.booleans())
    def begin(self, kind: str, count: int, fault_tolerant: bool) -> None:
        """Work that fits its quota, and runs."""
        self.create(kind, count, fault_tolerant)
        end = time.monotonic() + 30
        while self.ground.running() < count and time.monotonic() < end:
            time.sleep(0.2)

    @rule(kind=_WORK, count=st.integers(1, 3), fault_tolerant=st.booleans())
    def create(self, kind: str, count: int, fault_tolerant: bool) -> None:
        self._made += 1
        body = _named(work(kind, with_gpu("l4"), count=count), f"work-{self._made}")
        body["metadata"]["labels"][names.PRIORITY_LABEL] = "dev"
        if kind == "Job":
            body["spec"]["completions"] = count
        else:
            spec = body["spec"].get("rayClusterSpec", body["spec"])
            spec["rayVersion"] = "2.54.0"
            spec["headGroupSpec"]["template"]["spec"] = plain(memory="1Gi", cpu="500m")
            if fault_tolerant:
                spec["gcsFaultToleranceOptions"] = _HOLD
        self.ground.ask("create", "POST", self.ground.path(kind), body)

    @rule(which=_ANY, change=st.sampled_from(_CHANGES))
    def patch(self, which: int, change: Object) -> None:
        self._on("PATCH", which, _AT, lambda _: change)

    @rule(which=_ANY, replicas=st.integers(0, 4))
    def resize(self, which: int, replicas: int) -> None:
        """With its other fields as they are: a list is replaced whole."""

        def change(item: Object) -> Object:
            groups = item["spec"].get("workerGroupSpecs") or []
            sized = {"replicas": replicas, "minReplicas": replicas, "maxReplicas": replicas}
            return {"spec": {"workerGroupSpecs": [each | sized for each in groups]}}

        self._on("PATCH", which, ("RayCluster",), change)

    @rule(child=_ANY, parent=_ANY, controls=st.booleans(), also=st.sampled_from(({}, _INVALID)))
    def adopt(self, child: int, parent: int, controls: bool, also: Object) -> None:
        if not (found := self.ground.found("RayCluster", "RayJob", "Job")):
            return
        kind, above = found[parent % len(found)]
        meta = above["metadata"]
        owner = {"apiVersion": _AT[kind][0], "kind": kind, "name": meta["name"], "uid": meta["uid"]}
        change = {"metadata": {"ownerReferences": [owner | {"controller": controls}]}} | also
        self._on("PATCH", child, ("RayCluster", "Job", "Pod"), lambda _: change)

    @rule(which=_ANY, how=st.sampled_from(_DELETIONS))
    def delete(self, which: int, how: Object) -> None:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **how}
        self._on("DELETE", which, _AT, lambda _: body)

    def _on(self, method: str, which: int, kinds: Iterable[str], body: Callable[[Object], Object]) -> None:
        if not (found := self.ground.found(*kinds)):
            return
        kind, item = found[which % len(found)]
        self.ground.ask(method.lower(), method, self.ground.path(kind, item["metadata"]["name"]), body(item))

    @rule()
    def wait(self) -> None:
        time.sleep(2)

    @invariant()
    def has_no_more_than_its_quota(self) -> None:
        if self.ground.steps:
            self.ground.settle()
            self.ground.check()

    def teardown(self) -> None:
        if self.ground.steps:
            self.ground.guarantee()


@pytest.mark.skipif(not STEPS, reason="hours: make tenant STEPS=500")
def test_a_program_with_a_members_rights_gets_no_more_than_its_quota(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with _ground(tmp_path_factory.mktemp("tenant")) as ground:
        Tenant.ground = ground
        made = settings(
            max_examples=max(1, STEPS // A_SEQUENCE),
            stateful_step_count=A_SEQUENCE,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
        )
        try:
            run_state_machine_as_test(Tenant, settings=made)
        except BaseException:
            # The last run of the search is that of the shortest sequence.
            KEPT_IN.write_text(json.dumps(ground.steps, indent=1))
            raise


@contextmanager
def _ground(folder: Path) -> Iterator[Ground]:
    stack = load(Path(__file__).with_name("tenant.yaml"))
    with ExitStack() as held:
        world = held.enter_context(world_of(stack, folder, rights=stack))
        world.audits_rights = False
        _begin(world, stack)
        held.enter_context(scheduler(world.plane, world.programs))
        processes = [
            world.kueue,
            held.enter_context(envtest.controllers(world.plane, world.programs, ("job-controller",))),
            held.enter_context(world.kuberay()),
            # Its pools are always there: no check of ours is, that the start could wait for.
            held.enter_context(world.manager(*_flags(), wait=False)),
        ]
        held.enter_context(_kubelet(world))
        yield Ground(world, account(world.plane, TEAM, names.MEMBER_ACCOUNT), processes)


def _flags() -> list[str]:
    return [] if "backstop" in WITHOUT else ["--delete-without-quota=120"]


def _begin(world: World, stack: Stack) -> None:
    world.begin()
    for number in range(2 * GUARANTEE):
        make_node(world.plane, f"l4-{number}", "l4")
    objects = [tenancy.member_role(stack)]
    for teams in queues.by_department(stack).values():
        for found in teams.values():
            objects += [each for each in found if "kueue" not in each["apiVersion"]]
    if "policies" not in WITHOUT:
        objects += [body for found in tenancy.policies(stack) for body in found]
    for body in json.loads(json.dumps(objects)):
        apply(world.plane, body)


@contextmanager
def _kubelet(world: World) -> Iterator[None]:
    """What is bound runs and is ready; what is to end has ended."""
    stop = threading.Event()
    pods = "/api/v1/pods"

    def live() -> None:
        while not stop.wait(0.3):
            try:
                for each in world.items(pods):
                    _act(world, each)
            except OSError:
                continue

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _act(world: World, pod: Object) -> None:
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
    if "deletionTimestamp" in meta:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        world.plane.call("DELETE", path, body)
    elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
        ready = {"type": "Ready", "status": "True"}
        status = {"status": {"phase": "Running", "conditions": [ready], "podIP": "10.0.0.1"}}
        world.plane.call("PATCH", f"{path}/status", status, content_type=MERGE)
