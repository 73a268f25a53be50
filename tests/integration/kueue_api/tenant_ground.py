"""Where the tenant that is a program works: the plane, who asks, holes in the rules, and the oracle.

The real Kueue, KubeRay, JobSet, LeaderWorkerSet, scheduler and manager, and a kubelet that the test plays.
The policies judge two accounts of a team: a member, and a tenant with every right in its namespace.
"""

import json
import os
import threading
import time
import urllib.error
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from muster.config import load
from muster.kubernetes.client import api_root
from muster.model import names
from muster.model.stack import Stack
from muster.model.work import BY_KIND
from muster.render import queues, tenancy
from tests import built, envtest
from tests.envtest import Programs, path_of
from tests.envtest.process import Process
from tests.integration.kueue_api.brought import controller
from tests.integration.kueue_api.cloud import force
from tests.integration.kueue_api.conftest import every_right, world_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import plain, with_gpu, work
from tests.integration.kueue_api.world import KUEUE, MERGE, World, holds
from tests.integration.pod_autoscaler import make_node, scheduler
from tests.integration.tenancy.cluster import Answer, Caller, account
from tests.waiting import eventually

Object = dict[str, Any]

TEAM, OTHER = "team-b", "team-a"
GUARANTEE: Final = 2
NODES: Final = 2 * GUARANTEE + 2
"""With two devices each: more than all quota, so that pods without quota find some."""
WITHOUT: Final = tuple(filter(None, os.environ.get("MUSTER_TENANT_WITHOUT", "").split(",")))
_HAS_BACKSTOP: Final = "backstop" not in WITHOUT
# All policies, a policy, a rule of it by words of its message, or one that asks for less (`_CHANGED`).
PLANTED: Final = (
    "muster-ray-valid",
    "muster-owners",
    "muster-owners:was created for",
    "owners-by-uid",
    "muster-ending",
    "muster-growth",
    "muster-work",
    "policies",
)
_NAMED: Final = {"planted": PLANTED, "none": ("",), "backstop": ()}
HOLES: Final = tuple(hole for word in WITHOUT for hole in _NAMED.get(word, (word,))) or ("",)
# Where rules are left out, the backstop ends what they let run: a minute, two looks, and a busy machine.
GRACE: Final = 60 + 2 * 20 + 20 if _HAS_BACKSTOP and any(HOLES) else 45
"""Seconds that pods with devices may run without quota. Under all rules their controllers end them, and the
backstop never has to.
"""


class Noticed(BaseException):
    """A refusal of the oracle where a hole is planted. Hypothesis does not look for a shorter sequence, as it
    does after an Exception.
    """


_TRUSTED: Final = "trusted"
# The policies know by these accounts whose Jobs are counted already, and who stops what runs.
_BROUGHT: Final = {"jobset": "JobSet", "lws": "LeaderWorkerSet", "trainer": "TrainJob"}
_KUBERAY: Final = f"system:serviceaccount:{names.RAY_NAMESPACE}:kuberay"
_KUEUE: Final = f"system:serviceaccount:{names.KUEUE_NAMESPACE}:kueue"
_RBAC: Final = "rbac.authorization.k8s.io"

# Of a policy, what its expressions have instead.
_CHANGED: Final = {
    "owners-by-uid": (
        "muster-owners",
        ".?metadata.?ownerReferences.orValue([]) == variables.before.?metadata.?ownerReferences.orValue([])",
        ".?metadata.?ownerReferences.orValue([]).map(each, each.uid) == "
        "variables.before.?metadata.?ownerReferences.orValue([]).map(each, each.uid)",
    )
}

AT: Final = {
    "RayCluster": ("ray.io/v1", "rayclusters"),
    "RayJob": ("ray.io/v1", "rayjobs"),
    "Job": ("batch/v1", "jobs"),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "jobsets"),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    "Pod": ("v1", "pods"),
    "Service": ("v1", "services"),
    "Secret": ("v1", "secrets"),
    "ServiceAccount": ("v1", "serviceaccounts"),
    "Workload": (names.KUEUE_API_VERSION, "workloads"),
}
WORK: Final = tuple(AT)[:5]
HOLD: Final = {"redisAddress": "redis:6379"}
"""Makes the head of a cluster fault-tolerant: KubeRay holds its deletion until Redis is cleaned up."""


@dataclass(slots=True)
class Ground:
    """The cluster of all sequences, and the tenants by name. `steps`: requests of this sequence; `asked`: of
    all; `taken`: steps of the program, each any number of requests. `is_noticed`: a hole is open, and nothing
    but the oracle notices.
    """

    world: World
    stack: Stack
    tenants: dict[str, Caller]
    processes: list[Process]
    is_noticed: bool = False
    steps: list[Object] = field(default_factory=list)
    asked: int = 0
    taken: int = 0
    _began: float = field(default_factory=time.monotonic)
    _turns: dict[int, int] = field(default_factory=dict)
    _turn: int = -1

    def plant(self, hole: str) -> None:
        """All policies are in force but for this hole; none is with `policies`."""
        kept = [] if hole == "policies" else _policies(self.stack, hole)
        self.is_noticed = hole != "" and not _HAS_BACKSTOP
        for body in (body for bodies in tenancy.policies(self.stack) for body in bodies):
            self.world.delete(path_of(body))
        for body in json.loads(json.dumps(kept)):
            apply(self.world.plane, body)
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "any", "namespace": TEAM}}
        eventually(
            "the API server has read the policies",
            lambda: self.tenants[_TRUSTED].create(quota).is_allowed == (not kept),
        )

    def turn(self, drawn: int) -> int:
        """The next one for a number that was not drawn before, and the same for one that was: the search
        draws a sequence again.
        """
        if drawn not in self._turns:
            self._turns[drawn] = self._turn = self._turn + 1
        return self._turns[drawn]

    def begin_round(self) -> None:
        """A new search: what it draws has not been drawn before."""
        self._turns.clear()

    def path(self, kind: str, name: str = "", team: str = TEAM) -> str:
        version, plural = AT[kind]
        return f"{api_root(version)}/namespaces/{team}/{plural}{f'/{name}' if name else ''}"

    def existing(self, *kinds: str) -> list[tuple[str, Object]]:
        """Objects of these kinds, with the kind of each. Without the accounts that the tenants and their pods
        need: with a deleted owner they would go as well, and no request would have an account.
        """
        found = [(kind, item) for kind in kinds for item in self.world.items(self.path(kind))]
        kept = {*self.tenants, "default"}
        return [
            (kind, item)
            for kind, item in found
            if kind != "ServiceAccount" or item["metadata"]["name"] not in kept
        ]

    def ask(
        self, tenant: str, step: str, path: str, body: Object | None = None, *, kind: str = "application/json"
    ) -> Answer:
        """As this tenant, whatever the answer is. `step`: the method of HTTP."""
        answer = self.tenants[tenant].send(step, path, body, kind)
        self.asked += 1
        row = {"tenant": tenant, "step": step, "path": path, "kind": kind, "body": body}
        self.steps.append(row | {"answer": answer.code})
        if answer.is_allowed:
            self.settle()
        by = "" if answer.is_allowed else f"{', '.join(answer.refusals)} ...{answer.message[-90:]}"
        state = f"{answer.code} {by}; {self.running()} devices on {self.reserved()}"
        short = json.dumps(body, sort_keys=True)[:160] if step != "POST" else ""
        seconds = time.monotonic() - self._began
        print(f"{self.asked} {seconds:.0f}s {tenant} {step} {path} {short}: {state}", flush=True)
        return answer

    # The oracle

    def running(self, team: str = TEAM) -> int:
        """Devices of pods that have a node and are not being deleted."""
        return sum(
            int(one["resources"].get("limits", {}).get(names.GPU_RESOURCE, 0))
            for pod in self.world.items(self.path("Pod", team=team))
            if pod["spec"].get("nodeName")
            and "deletionTimestamp" not in pod["metadata"]
            and pod["status"].get("phase") not in ("Succeeded", "Failed")
            for one in pod["spec"]["containers"]
        )

    def reserved(self) -> int:
        """By Kueue's own account."""
        status = self.world.plane.call("GET", f"{KUEUE}/clusterqueues/{TEAM}").get("status") or {}
        return sum(
            int(amount.get("total", 0))
            for flavor in status.get("flavorsReservation") or ()
            for amount in flavor["resources"]
            if amount["name"] == names.GPU_RESOURCE
        )

    def settle(self) -> None:
        """Until nothing changes for a second, or ten have passed."""
        end, last, since = time.monotonic() + 10, None, time.monotonic()
        while time.monotonic() < end and time.monotonic() < since + 1:
            now = (self.running(), self.reserved(), len(self.existing("Pod", "RayCluster")))
            if now != last:
                last, since = now, time.monotonic()
            time.sleep(0.2)

    def check(self) -> None:
        ended = [process.name for process in self.processes if not process.is_alive]
        self._within_grace(lambda: not ended, f"{ended} ended by itself")
        self._within_grace(lambda: self.running() <= self.reserved(), "more devices run than are reserved")

    def guarantee(self) -> None:
        """The other team gets all that it is promised, and what borrowed it ends."""
        body = named(work("Job", with_gpu("l4"), count=GUARANTEE), "promised", OTHER)
        apply(self.world.plane, body)
        self._within_grace(lambda: self.running(OTHER) >= GUARANTEE, f"{OTHER} waits for its guarantee")
        self.check()
        self.world.delete(self.path("Job", "promised", OTHER))

    def stop(self) -> None:
        """What runs ends where an administrator stops it by its Workload, and then by what is left: Kueue
        0.19.2 stops no elastic work whose waiting Workload is stopped before (docs/known-issues.md).
        """
        for has_quota in (True, False):
            for _, item in self.existing("Workload"):
                if holds(item, "QuotaReserved") or not has_quota:
                    path = self.path("Workload", item["metadata"]["name"])
                    self._as_administrator(path, {"spec": {"active": False}})
            self.settle()
        self._within_grace(lambda: not self.running(), "devices run that an administrator stopped")

    def _within_grace(self, holds: Callable[[], bool], otherwise: str) -> None:
        end = time.monotonic() + GRACE
        while not holds():
            if time.monotonic() > end:
                refusal = f"{otherwise}: {self.running()} on {self.reserved()}"
                raise Noticed(refusal) if self.is_noticed else AssertionError(refusal)
            time.sleep(0.3)

    def clear(self) -> None:
        """By an administrator, who takes every finalizer off."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            left = [
                self.path(kind, item["metadata"]["name"], team)
                for team in (TEAM, OTHER)
                for kind in (*WORK, "Pod", "Service", "Workload")
                for item in self.world.items(self.path(kind, team=team))
            ]
            if not left:
                return
            for path in left:
                self.world.delete(path)
                self._as_administrator(path, {"metadata": {"finalizers": None}})
            time.sleep(0.3)
        raise AssertionError("what a sequence left cannot be removed")

    def _as_administrator(self, path: str, body: Object) -> None:
        try:
            self.world.plane.call("PATCH", path, body, content_type=MERGE)
        except urllib.error.HTTPError as error:
            if error.code not in (404, 409):
                raise

    def deleted_without_quota(self) -> int:
        """Objects about which the backstop has written an Event."""
        events = self.world.items(f"/apis/events.k8s.io/v1/namespaces/{TEAM}/events")
        return sum(event["reason"] == "PodWithoutQuota" for event in events)


def work_of(kind: str, count: int, *, fault_tolerant: bool = False) -> Object:
    """`count` pods with a device; those of a Ray cluster beside a head, which alone is `fault_tolerant`."""
    template = {"spec": {"restartPolicy": "Never", **with_gpu("l4")}}
    job = work("Job", with_gpu("l4"), count=count)
    # So that a larger number of pods at once is another number.
    job["spec"]["completions"] = NODES
    if kind == "Job":
        return job
    version = {"apiVersion": AT[kind][0], "kind": kind, "metadata": job["metadata"]}
    if kind == "Pod":
        return {**version, **template}
    if kind == "JobSet":
        one = {"parallelism": count, "completions": count, "completionMode": "Indexed", "backoffLimit": 0}
        jobs = [{"name": "w", "replicas": 1, "template": {"spec": {**one, "template": template}}}]
        # What its webhooks would fill in, which do not run here.
        filled: Object = {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "successPolicy": {"operator": "All"},
        }
        return {**version, "spec": {"suspend": True, "replicatedJobs": jobs, **filled}}
    if kind == "LeaderWorkerSet":
        workers = {"size": count, "workerTemplate": {"spec": with_gpu("l4")}}
        return {**version, "spec": {"replicas": 1, "leaderWorkerTemplate": workers}}
    body = work(kind, with_gpu("l4"), count=count)
    spec = body["spec"].get("rayClusterSpec", body["spec"])
    spec |= {"rayVersion": "2.54.0", "authOptions": {"mode": "token"}}
    head = spec["headGroupSpec"]["template"]["spec"] = plain(memory="1Gi", cpu="500m")
    # None for Serve: KubeRay makes no Service of it.
    head["containers"][0]["ports"] = [{"name": "dashboard", "containerPort": 8265}]
    if fault_tolerant:
        spec["gcsFaultToleranceOptions"] = HOLD
    return body


def sized(kind: str, body: Object, count: int) -> Object:
    """With its other fields as they are: a list is replaced whole."""
    spec = body.get("spec") or {}
    if kind == "RayJob":
        return {"rayClusterSpec": sized("RayCluster", {"spec": spec.get("rayClusterSpec")}, count)}
    if kind == "RayCluster":
        numbers = {"replicas": count, "minReplicas": count, "maxReplicas": count}
        return {"workerGroupSpecs": [group | numbers for group in spec.get("workerGroupSpecs") or ()]}
    if kind == "JobSet":
        return {"replicatedJobs": [job | {"replicas": count} for job in spec["replicatedJobs"]]}
    return {"replicas" if kind == "LeaderWorkerSet" else "parallelism": count}


def named(body: Object, name: str, team: str = TEAM) -> Object:
    body["metadata"] |= {"name": name, "namespace": team}
    return body


@contextmanager
def ground_of(
    folder: Path,
    *,
    has_backstop: bool = _HAS_BACKSTOP,
    brings: Sequence[str] = ("jobset", "lws"),
    of: Stack | None = None,
) -> Iterator[Ground]:
    """`brings`: the controllers that a cluster brings along. `of`: another stack, of which no node is
    there.
    """
    stack = of or load(Path(__file__).with_name("tenant.yaml"))
    programs = built.programs(brings, [f"{name}-config" for name in brings])
    below = {"trainer": "crds"}
    kinds = [each for n in brings for each in programs.kinds(f"{n}-config", below=below.get(n, "crd/bases"))]
    with ExitStack() as held:
        world = held.enter_context(world_of(stack, folder, rights=stack, user=_KUEUE, kinds=kinds))
        world.audits_rights = False
        _begin(world, stack, nodes=0 if of else NODES)
        held.enter_context(scheduler(world.plane, world.programs))
        made = ("job-controller", "statefulset-controller", "deployment-controller", "replicaset-controller")
        processes = [
            world.kueue,
            held.enter_context(envtest.controllers(world.plane, world.programs, made)),
            *(held.enter_context(_brought(world, name, programs)) for name in brings),
            held.enter_context(world.kuberay(user=_KUBERAY)),
            # Its pools are always there: no check of ours is, that the start could wait for.
            held.enter_context(
                world.manager(*(["--delete-without-quota=120"] if has_backstop else []), wait=False)
            ),
        ]
        held.enter_context(_kubelet(world))
        accounts = (names.MEMBER_ACCOUNT, _TRUSTED)
        tenants = {name: account(world.plane, TEAM, name) for name in accounts}
        yield Ground(world, stack, tenants, processes)


def _brought(world: World, name: str, programs: Programs) -> AbstractContextManager[Process]:
    webhooks = programs.assets[f"{name}-config"] / "webhook/manifests.yaml"
    namespace, _, account = BY_KIND[_BROUGHT[name]].controller.partition(":")
    user = f"system:serviceaccount:{namespace}:{account or name}"
    apply(world.plane, every_right(user))
    return controller(world.plane, name, programs, webhooks=webhooks, user=user)


def _begin(world: World, stack: Stack, *, nodes: int) -> None:
    world.begin()
    for number in range(nodes):
        make_node(world.plane, f"l4-{number}", "l4", gpus=2)
    objects = [tenancy.member_role(stack)]
    for teams in queues.by_department(stack).values():
        for team in teams.values():
            objects += [item for item in team if "kueue" not in item["apiVersion"]]
    objects += [*_with_every_right(), every_right(_KUBERAY)]
    for body in json.loads(json.dumps(objects)):
        apply(world.plane, body)


def _with_every_right() -> Iterable[Object]:
    """A tenant who was given far more than a member, in its namespace alone."""
    meta = {"name": _TRUSTED, "namespace": TEAM}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
    every = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    yield {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": meta, "rules": every}
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": _TRUSTED},
        "subjects": [{"kind": "ServiceAccount", **meta}],
    }


def _policies(stack: Stack, hole: str) -> list[Object]:
    """Those in force but for the hole, of `PLANTED`."""
    policies = [body for bodies in tenancy.policies(stack) for body in bodies]
    kept = [body for body in policies if body["metadata"]["name"] != hole]
    policy, _, words = hole.partition(":")
    of, old, new = _CHANGED.get(hole, (policy, "", ""))
    changed = len(kept) < len(policies)
    for body in kept:
        if body["metadata"]["name"] == of and "validations" in body["spec"]:
            rules = body["spec"]["validations"]
            left = [rule for rule in rules if not words or words not in rule["messageExpression"]]
            if old:
                left = [rule | {"expression": rule["expression"].replace(old, new)} for rule in left]
            changed = left != rules
            body["spec"]["validations"] = left
    assert changed or not hole, f"MUSTER_TENANT_WITHOUT names no rule: {hole}"
    return kept


@contextmanager
def _kubelet(world: World) -> Iterator[None]:
    """What is bound runs and is ready; what is to end has ended, and Redis is cleaned up at once."""
    stop = threading.Event()

    def live() -> None:
        while not stop.wait(0.2):
            try:
                for pod in world.items("/api/v1/pods"):
                    _act(world, pod)
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
        force(world.plane, path)
    elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
        # KubeRay waits five minutes for a cleanup that does not end, and the quota of a RayJob with it.
        cleans = meta.get("labels", {}).get("ray.io/node-type") == "redis-cleanup"
        status: Object = {"phase": "Succeeded" if cleans else "Running", "podIP": "10.0.0.1"}
        status |= {"conditions": [{"type": "Ready", "status": "True"}]}
        world.plane.call("PATCH", f"{path}/status", {"status": status}, content_type=MERGE)
