"""A plane with the real Kueue and our real manager on it, and the cloud played by the test.

Everything is a process of this host. The cloud answers a request by writing its status and, where nodes are
promised, by making them: nobody here would notice one that is not really there.
"""

import json
import os
import random
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from muster.components import gang_admission, gang_authority
from muster.model import names
from muster.model.stack import Stack
from muster.render import gang, queuetree
from tests.envtest import ControlPlane, Programs, path_of
from tests.envtest.process import Process, free_port
from tests.faults.kills import Kill
from tests.faults.managers import Manager
from tests.faults.proxy import Proxy
from tests.integration.accounts import account_kubeconfig
from tests.integration.kueue_api.objects import apply
from tests.integration.pod_autoscaler import make_node
from tests.integration.rights import enough_rights
from tests.unit.model.kueue_files import rendered
from tests.waiting import PATIENCE, eventually

Object = dict[str, Any]

ROOT: Final = Path(__file__).parents[3]
STACK: Final = Path(__file__).parent / "stack.yaml"
TEAM: Final = "team-b"
KUEUE: Final = f"/apis/{names.KUEUE_API_VERSION}"
WORKLOADS: Final = f"{KUEUE}/namespaces/{TEAM}/workloads"
REQUESTS: Final = f"/apis/{names.PROVISIONING_API_VERSION}/namespaces/{TEAM}/provisioningrequests"
TEMPLATES: Final = f"/api/v1/namespaces/{TEAM}/podtemplates"
PODS: Final = f"/api/v1/namespaces/{TEAM}/pods"
JOBS: Final = f"/apis/batch/v1/namespaces/{TEAM}/jobs"
CLUSTERS: Final = f"/apis/ray.io/v1/namespaces/{TEAM}/rayclusters"
POLICY: Final = f"/apis/{names.API_VERSION}/{names.GANG_POLICY_PLURAL}/{names.GANG_POLICY}"
MERGE: Final = "application/merge-patch+json"
GATE: Final = "kueue.x-k8s.io/admission"
_TOLERATED: Final = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


@dataclass(slots=True)
class World:
    """A plane with Kueue on it, and our manager while it is there. `ours`: the stack of its gangs.
    `audits_rights`: whether its audit log is the one about rights.
    """

    plane: ControlPlane
    ours: Stack
    kueue: Process
    programs: Programs
    audits_rights: bool = True
    logs: list[Path] = field(default_factory=list)

    def begin(self) -> None:
        """Our policy, the queues of our stack, and the node that always stands."""
        self.plane.apply(json.loads(json.dumps(gang.policy(self.ours, placeholder_image="none"))), POLICY)
        apply(self.plane, json.loads(json.dumps(queuetree.tree(self.ours))))
        for item in rendered(self.ours):
            apply(self.plane, item)
        make_node(self.plane, "cpu-0", "cpu")

    def define(self, kinds: list[Object], served: str) -> None:
        """Definitions of others, until Kueue serves this kind of them. It looks for those that it lacks once
        a second, and until then the Jobs of a JobSet are work of their own.
        """
        self.plane.define(kinds)

        def is_served() -> bool:
            lines = self.kueue.log.read_text(encoding="utf-8").splitlines()
            return any("API now available" in line and f"Kind={served}" in line for line in lines)

        eventually(f"Kueue serves {served}", is_served)

    @contextmanager
    def policy(self, **fields: object) -> Iterator[None]:
        """Our policy with other values, until the block ends."""
        before = self.plane.call("GET", POLICY)["spec"]
        self.plane.call("PATCH", POLICY, {"spec": fields}, content_type=MERGE)
        try:
            yield
        finally:
            old = {name: before.get(name) for name in fields}
            self.plane.call("PATCH", POLICY, {"spec": old}, content_type=MERGE)

    # Programs

    @contextmanager
    def manager(
        self, *flags: str, name: str = "manager", code: Path = ROOT, elects: bool = False, wait: bool = True
    ) -> Iterator[Process]:
        """Our manager, of the checkout that lies in `code`, until the block ends."""
        kubeconfig, health = account_kubeconfig(self.plane, gang_authority.MANAGER), free_port()
        # An older build has no package around its folders.
        module = "muster.controller" if (code / "muster").is_dir() else "controller"
        argv = [sys.executable, "-m", module, "manager", f"--kubeconfig={kubeconfig}"]
        argv += [f"--health-port={health}", f"--identity={name}"]
        argv += ["--leader-elect" if elects else "--no-leader-elect", *flags]
        log = self.plane.folder / f"{name}.log"
        environment = {**os.environ, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"}
        process = Process(name, argv, log=log, environment=environment)
        self.logs.append(log)
        with enough_rights(self.plane.folder) if self.audits_rights else nullcontext():
            process.start()
            try:
                if wait:
                    eventually("our check is active", lambda: self.is_active(names.ADMISSION_CHECK))
                yield process
            finally:
                process.kill()

    @contextmanager
    def killed_manager(self, seed: int, *, every: Sequence[int] = (2, 3, 5)) -> Iterator[Proxy]:
        """Our manager, which dies before or after some of its writes, or after each, and comes back: `plan`
        of the proxy is the Kill. Each death costs seconds.
        """
        kills = random.Random(seed)
        number = kills.choice(every)
        before = number > 1 and kills.random() < 0.5
        with Proxy(self.plane).serving() as proxy:
            kubeconfig = account_kubeconfig(self.plane, gang_authority.MANAGER)
            content = json.loads(kubeconfig.read_text())
            content["clusters"][0]["cluster"] = {"server": proxy.url}
            kubeconfig.write_text(json.dumps(content))
            manager = Manager(kubeconfig, self.plane.folder / f"seed-{seed}.log")
            proxy.plan = Kill(manager, number, before=before, again=True)
            with manager.kept():
                yield proxy

    @contextmanager
    def webhooks(self, *, fills_in: bool = False) -> Iterator[None]:
        """Our webhooks, those that fill in too where it is asked for, and a manager that keeps their
        configuration, until the block ends.

        The API server reaches them by the name of their Service, as in a cluster: here that is a name for
        this host.
        """
        port, health = free_port(), free_port()
        service = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        meta = {"name": gang_authority.WEBHOOKS, "namespace": names.SYSTEM_NAMESPACE}
        apply(self.plane, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": service})
        listed = {"Validating": gang_admission.validating(self.ours)}
        if fills_in:
            listed["Mutating"] = gang_admission.mutating(self.ours)
        configurations: list[Object] = [
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": f"{kind}WebhookConfiguration",
                "metadata": {"name": gang_authority.PROGRAM},
                "webhooks": found,
            }
            for kind, found in listed.items()
        ]
        for configuration in configurations:
            for hook in configuration["webhooks"]:
                hook["clientConfig"]["service"]["port"] = port
            apply(self.plane, configuration)
        kubeconfig = account_kubeconfig(self.plane, gang_authority.WEBHOOKS)
        argv = [sys.executable, "-m", "muster.controller", "webhooks", f"--kubeconfig={kubeconfig}"]
        argv += [f"--health-port={health}", f"--webhook-port={port}"]
        process = Process("webhooks", argv, log=self.plane.folder / "webhooks.log")
        process.start()
        try:
            with self.manager(*(f"--{kind.lower()}={gang_authority.PROGRAM}" for kind in listed)):
                process.await_(lambda: _is_ready(health), seconds=PATIENCE)
                yield
        finally:
            process.kill()
            for configuration in configurations:
                self.delete(path_of(configuration))

    @contextmanager
    def kuberay(self, *, user: str | None = None) -> Iterator[Process]:
        """The real KubeRay: it makes the pods of Ray clusters, which no kubelet runs here. `user`: whom it
        acts as, the administrator by default.
        """
        health = free_port()
        argv = [self.programs.program("kuberay"), "--metrics-addr=0", "--enable-leader-election=false"]
        argv += [f"--health-probe-bind-address=127.0.0.1:{health}"]
        kubeconfig = (
            self.plane.kubeconfig(name="kuberay", acting_as=user) if user else self.plane.kubeconfig()
        )
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        log = self.plane.folder / "kuberay.log"
        process = Process("kuberay", argv, log=log, environment=environment)
        process.start()
        try:
            process.await_(lambda: _is_ready(health), seconds=PATIENCE)
            yield process
        finally:
            process.kill()

    def is_active(self, check: str) -> bool:
        """And Kueue has seen it: who comes in that moment may wait until anything else happens
        (docs/known-issues.md).
        """
        queues = (condition(each, "Active") for each in self.items(f"{KUEUE}/clusterqueues"))
        closed = any(each.get("reason") == "AdmissionCheckInactive" for each in queues)
        return not closed and holds(self.plane.call("GET", f"{KUEUE}/admissionchecks/{check}"), "Active")

    # Jobs

    def submit(self, name: str, pool: str, *, priority: str = "prod", queue: str = "default") -> None:
        """A Job of one pod with one GPU."""
        labels = {names.QUEUE_LABEL: queue, names.PRIORITY_LABEL: priority}
        meta = {"name": name, "namespace": TEAM, "labels": labels}
        job = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", **pod(pool)}}}
        apply(self.plane, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job})

    def delete(self, path: str, *, policy: str = "Background") -> None:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}
        try:
            self.plane.call("DELETE", path, body)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise

    def patch(self, path: str, change: Object) -> None:
        """As an administrator does."""
        self.plane.call("PATCH", path, change, content_type=MERGE)

    def stop_queue(self, policy: str) -> None:
        """That of the team: `HoldAndDrain` evicts what has quota."""
        self.patch(f"{KUEUE}/namespaces/{TEAM}/localqueues/default", {"spec": {"stopPolicy": policy}})

    def remove(self, path: str) -> None:
        """All that is there, until nothing is."""
        for item in self.items(path):
            self.delete(f"{path}/{item['metadata']['name']}")
        self.wait_until_empty(path)

    def clear(self, *kinds: str) -> None:
        """No job of an earlier test is left, nor anything of it. `kinds`: paths of other work."""
        for at in kinds:
            self.remove(at)
        for at in (JOBS, CLUSTERS):
            for item in self.items(at):
                self.delete(f"{at}/{item['metadata']['name']}")
        for at in (WORKLOADS, REQUESTS, TEMPLATES):
            self.wait_until_empty(at)
        eventually(f"all of {PODS} are gone", self._are_pods_gone)
        self.remove_nodes()

    def _are_pods_gone(self) -> bool:
        """A pod that loses its last finalizer while it is deleted may stay. In a cluster a collector of pods
        deletes those again that have no node.
        """
        left = self.items(PODS)
        for pod in left:
            if "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName"):
                self.delete(f"{PODS}/{pod['metadata']['name']}")
        return not left

    def remove_nodes(self) -> None:
        """Those of every request, as the autoscaler removes idle ones: no gang can take them any more."""
        self.delete(f"/api/v1/nodes?labelSelector={names.GKE_LEASE_LABEL}")

    def wait_until_empty(self, path: str) -> None:
        eventually(f"all of {path} are gone", lambda: not self.items(path))

    def wait_until_runs(self, name: str) -> None:
        eventually(f"{name} is admitted", lambda: self.holds(name, "Admitted"))

    # What there is

    def items(self, path: str) -> list[Object]:
        try:
            found: list[Object] = self.plane.call("GET", path)["items"]
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return []
        return found

    def workload(self, name: str) -> Object | None:
        """The Workload of the job of this name; of an elastic one, the slice that lives."""
        owned = (each for each in self.items(WORKLOADS) if name in owners(each))

        def rank(each: Object) -> tuple[bool, int]:
            return not holds(each, "Finished"), int(each["metadata"]["resourceVersion"])

        return max(owned, key=rank, default=None)

    def uid(self, name: str) -> str:
        return str((self.workload(name) or {"metadata": {"uid": ""}})["metadata"]["uid"])

    def requests(self, name: str) -> list[Object]:
        """Requests of ours for this Workload, or of Kueue's."""
        uid = self.uid(name)
        return [each for each in self.items(REQUESTS) if is_ours(each, uid) or is_theirs(each, uid)]

    def asked(self, name: str, *but: Object) -> list[Object]:
        """Live requests of ours for this job that are none of those."""
        known = {each["metadata"]["uid"] for each in but}
        found = [
            each
            for each in self.requests(name)
            if is_ours(each, self.uid(name)) and each["metadata"]["uid"] not in known
        ]
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    def entry(self, name: str) -> Object:
        """The answer of our check, {} before there is one."""
        found = (self.workload(name) or {}).get("status", {}).get("admissionChecks") or []
        return next((each for each in found if each["name"] == names.ADMISSION_CHECK), {})

    def holds(self, name: str, kind: str) -> bool:
        return holds(self.workload(name) or {}, kind)

    def notes(self, name: str) -> dict[str, str]:
        """The annotations of its Workload."""
        return (self.workload(name) or {"metadata": {}})["metadata"].get("annotations") or {}

    def reasons(self, name: str) -> set[str]:
        """Those of the Events about the object of this name."""
        found = self.items(f"/apis/events.k8s.io/v1/namespaces/{TEAM}/events")
        return {each["reason"] for each in found if each["regarding"]["name"] == name}

    def pods(self, *, gated: bool) -> list[Object]:
        """Those that wait behind the gate of Kueue, or do not; without those that end."""
        return [
            pod
            for pod in self.items(PODS)
            if (GATE in {gate["name"] for gate in pod["spec"].get("schedulingGates") or ()}) == gated
            and "deletionTimestamp" not in pod["metadata"]
        ]

    # The cloud

    def answer(
        self, request: Object, kind: str, *, reason: str = "Test", details: dict[str, str] | None = None
    ) -> None:
        """The cloud's word: Accepted, Failed or Provisioned."""
        said = {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": "said by a test",
            "lastTransitionTime": request["metadata"]["creationTimestamp"],
        }
        path = f"{REQUESTS}/{request['metadata']['name']}/status"
        status: Object = {"conditions": [said]}
        if details:
            status["provisioningClassDetails"] = details
        self.plane.call("PATCH", path, {"status": status}, content_type=MERGE)

    def provision(self, request: Object, *, make: Callable[..., None] = make_node) -> None:
        """Nodes of a lease of their own, one a pod, and then the word. `make`: in place of plain ones."""
        name = request["metadata"]["name"]
        template = request["spec"]["podSets"][0]["podTemplateRef"]["name"]
        spec = self.plane.call("GET", f"{TEMPLATES}/{template}")["template"]["spec"]
        pool = spec["nodeSelector"][names.POOL_LABEL]
        for number in range(size_of(request)):
            make(self.plane, f"{name[-12:]}-{number}", pool, lease=name)
        self.answer(request, "Provisioned", details={names.GKE_LEASE_DETAIL: name})

    @contextmanager
    def shared_node(self, name: str, pool: str) -> Iterator[None]:
        """One that belongs to no request, until the block ends."""
        make_node(self.plane, name, pool)
        try:
            yield
        finally:
            self.delete(f"/api/v1/nodes/{name}")

    def run(self, name: str, pool: str = "l4") -> None:
        """Submit a Job, give it its nodes, and see it admitted."""
        self.submit(name, pool)
        self.provision(eventually(f"{name} has asked", partial(self.asked, name))[0])
        self.wait_until_runs(name)


def pod(pool: str) -> Object:
    """A pod spec of one container with one GPU of the pool."""
    gpu = {"nvidia.com/gpu": "1"}
    resources = {"requests": {"cpu": "100m", "memory": "64Mi", **gpu}, "limits": gpu}
    return {
        "nodeSelector": {names.POOL_LABEL: pool},
        "tolerations": [_TOLERATED],
        "containers": [{"name": "work", "image": "none", "resources": resources}],
    }


def size_of(request: Object) -> int:
    """The pods that it asks nodes for."""
    return sum(each["count"] for each in request["spec"]["podSets"])


def holds(item: Object, kind: str) -> bool:
    return bool(condition(item, kind)["status"] == "True")


def condition(item: Object, kind: str) -> Object:
    conditions = (item.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {"status": "Unknown"})


def owners(item: Object) -> set[str]:
    return {owner["name"] for owner in item["metadata"].get("ownerReferences") or ()}


def is_ours(request: Object, uid: str) -> bool:
    return (request["metadata"].get("labels") or {}).get(names.WORKLOAD_UID_LABEL) == uid


def is_theirs(request: Object, uid: str) -> bool:
    return uid in {owner["uid"] for owner in request["metadata"].get("ownerReferences") or ()}


def is_outside(workload: Object | None) -> bool:
    """It waits outside the quota, and it was us who put it there."""
    noted = (workload or {}).get("metadata", {}).get("annotations") or {}
    return names.RETRY_AT_ANNOTATION in noted and (workload or {})["spec"].get("active") is False


def is_let_in(workload: Object | None) -> bool:
    noted = (workload or {}).get("metadata", {}).get("annotations") or {}
    return names.RETRY_AT_ANNOTATION not in noted and (workload or {})["spec"].get("active") is not False


def _is_ready(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
        return bool(answer.status == 200)


def freeze(process: Process) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)


def thaw(process: Process) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGCONT)
