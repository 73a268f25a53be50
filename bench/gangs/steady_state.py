"""A cluster full of Workloads, written straight into etcd as the API server would have stored it after days.

Of every ten Workloads three run on a node of their own, with the request and the template that our
controller made for them, and seven wait for quota. The controller's objects are made by its own pure
functions, so that it finds them as it would have left them. They are smaller than a RayJob's Workload: one
PodSet and no managedFields. 50,000 of 12 KiB each took the API server more than 22 GiB.
"""

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from bench.gangs.shapes import POOL, Gang, Shape, plain, stack_of
from muster.controller.gangs.actions import CreateRequest, CreateTemplates
from muster.controller.gangs.identity import template_name
from muster.controller.gangs.objects import PodTemplate
from muster.controller.gangs.templates import pod_template, provisioning_request
from muster.controller.kueue.decide import decide
from muster.controller.kueue.identity import WORKLOADS
from muster.controller.kueue.objects import ResourceFlavor, Workload
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.controller.kueue.templates import merged
from muster.model import names
from muster.render import gang, kueue

Stored = tuple[str, bytes]
"""A key of etcd and the object under it, in JSON: custom resources lie there so, and the API server reads
built-in kinds in it too (it recognises its own format by the first bytes)."""

_WORKLOADS: Final = "/registry/kueue.x-k8s.io/workloads"
_REQUESTS: Final = "/registry/autoscaling.x-k8s.io/provisioningrequests"
_SPACE: Final = uuid.UUID("7b7c0a52-6e0c-4b6c-8f0a-7a5f5c1f0d11")
_RUNNING, _OF = 3, 10
NEWCOMER: Final = "zz-newcomer"


class SteadyState:
    """The objects of `count` Workloads in the queues of a shape."""

    def __init__(self, shape: Shape, count: int, *, now: datetime | None = None) -> None:
        stack = stack_of(shape)
        self._gangs = list(plain(shape, count))
        self._policy = gang.gang_policy(stack)
        flavors = (msgspec.convert(each, ResourceFlavor) for each in kueue.flavors(stack))
        self._flavors = {flavor.metadata.name: flavor for flavor in flavors}
        self._flavor = next(pool.flavor for pool in stack.pools if pool.name == POOL)
        self._since = ((now or datetime.now(UTC)) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def running(self) -> int:
        return sum(map(_runs, range(len(self._gangs))))

    def objects(self) -> Iterator[Stored]:
        """Everything, Workload by Workload."""
        for number, each in enumerate(self._gangs):
            if _runs(number):
                yield from self._running(each)
            else:
                yield _stored(_WORKLOADS, self._workload(each, self._condition("QuotaReserved", "False")))

    def newcomer(self, namespace: str) -> Stored:
        """One that has only quota. The controller requests its nodes when it reconciles it."""
        reserved = self._condition("QuotaReserved")
        entry = {
            "name": names.ADMISSION_CHECK,
            "state": "Pending",
            "message": "",
            "lastTransitionTime": self._since,
        }
        status = {"admission": self._admission(namespace), "admissionChecks": [entry]}
        return _stored(
            _WORKLOADS, self._workload(Gang(namespace=namespace, name=NEWCOMER), reserved, **status)
        )

    def _running(self, each: Gang) -> Iterator[Stored]:
        """Asked for, answered, Ready and admitted, each step as the one before it left it."""
        _, raw = self.newcomer(each.namespace)
        plain_status = json.loads(raw)["status"]
        body = self._workload(each, *plain_status.pop("conditions"), **plain_status)
        snapshot = WorkloadSnapshot(
            check=names.ADMISSION_CHECK,
            workload=msgspec.convert(body, Workload),
            now=datetime.now(UTC),
            policy=self._policy,
            flavors=self._flavors,
        )
        template, request = self._asked(snapshot, body)
        lease = f"lease-{request['metadata']['name']}"
        yield _stored("/registry/podtemplates", template)
        yield _stored(_REQUESTS, self._answered(request, lease))
        yield _stored("/registry/minions", _node(lease, self._since))
        yield _stored(_WORKLOADS, self._admitted(body, request, lease))

    def _asked(
        self, snapshot: WorkloadSnapshot, body: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        actions = decide(snapshot).actions
        (makes,) = (each for each in actions if isinstance(each, CreateTemplates))
        (request_specs,) = (each for each in actions if isinstance(each, CreateRequest))
        (demand,) = makes.spec.demands
        owner = WORKLOADS.of(snapshot.workload)
        template = pod_template(
            owner,
            name=template_name(makes.request, 0),
            template=merged(body["spec"]["podSets"][0]["template"], demand, self._flavors),
            pool=makes.spec.pool,
            labels=makes.labels,
        )
        template = self._born({"apiVersion": "v1", "kind": "PodTemplate", **template})
        made = [msgspec.convert(template, PodTemplate, strict=False)]
        request = provisioning_request(
            owner,
            name=request_specs.name,
            spec=request_specs.spec,
            templates=made,
            labels=request_specs.labels,
        )
        kind = {"apiVersion": names.PROVISIONING_API_VERSION, "kind": "ProvisioningRequest"}
        return template, self._born({**kind, **request})

    def _answered(self, request: dict[str, Any], lease: str) -> dict[str, Any]:
        said = [self._condition("Accepted"), self._condition("Provisioned")]
        details = {names.GKE_LEASE_DETAIL: lease}
        return {**request, "status": {"conditions": said, "provisioningClassDetails": details}}

    def _admitted(self, body: dict[str, Any], request: dict[str, Any], lease: str) -> dict[str, Any]:
        claim = {
            "name": "main",
            "annotations": {
                names.CONSUME_ANNOTATION: request["metadata"]["name"],
                names.CLASS_ANNOTATION: request["spec"]["provisioningClassName"],
            },
            "nodeSelector": {names.GKE_LEASE_LABEL: lease},
        }
        status = body["status"]
        entry = {
            **status["admissionChecks"][0],
            "state": "Ready",
            "message": "1 node is provisioned",
            "podSetUpdates": [claim],
        }
        conditions = [*status["conditions"], self._condition("Admitted")]
        return {**body, "status": {**status, "admissionChecks": [entry], "conditions": conditions}}

    def _workload(self, each: Gang, *conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
        body = self._born(each.manifest())
        return {**body, "status": {**status, "conditions": list(conditions)}}

    def _admission(self, namespace: str) -> dict[str, Any]:
        resources = {"cpu": "1", "memory": "1Gi", names.GPU_RESOURCE: "1"}
        assigned = {
            "name": "main",
            "count": 1,
            "flavors": dict.fromkeys(resources, self._flavor),
            "resourceUsage": resources,
        }
        return {"clusterQueue": namespace, "podSetAssignments": [assigned]}

    def _condition(self, kind: str, status: str = "True") -> dict[str, Any]:
        return {
            "type": kind,
            "status": status,
            "reason": kind if status == "True" else "Pending",
            "message": "as it has been for an hour",
            "lastTransitionTime": self._since,
        }

    def _born(self, body: dict[str, Any]) -> dict[str, Any]:
        meta = body["metadata"]
        own = str(uuid.uuid5(_SPACE, f"{body['kind']}/{meta.get('namespace')}/{meta['name']}"))
        return {**body, "metadata": {**meta, "uid": own, "creationTimestamp": self._since, "generation": 1}}


def _runs(number: int) -> bool:
    return number // 10 % _OF < _RUNNING  # whole tens, so that every queue has its share of both


def _stored(prefix: str, body: dict[str, Any]) -> Stored:
    meta = body["metadata"]
    space = f"/{meta['namespace']}" if "namespace" in meta else ""
    return f"{prefix}{space}/{meta['name']}", json.dumps(body, separators=(",", ":")).encode()


def _node(lease: str, since: str) -> dict[str, Any]:
    labels = {names.POOL_LABEL: POOL, names.GKE_LEASE_LABEL: lease, "kubernetes.io/hostname": lease}
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", names.GPU_RESOURCE: "1"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": since}
    taint = {"key": names.GPU_TAINT_KEY, "value": names.GPU_TAINT_VALUE, "effect": names.GPU_TAINT_EFFECT}
    own = str(uuid.uuid5(_SPACE, f"Node/{lease}"))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": lease, "labels": labels, "uid": own, "creationTimestamp": since},
        "spec": {"taints": [taint]},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }
