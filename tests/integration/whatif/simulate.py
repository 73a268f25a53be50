"""The real Kueue on a control plane of its own, from an empty etcd to its decisions: what the player of
`muster what-if` is checked against (docs/decisions/006).
"""

import asyncio
import base64
import ssl
import tempfile
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp

from muster.live.fields import find_condition, is_true, items, mapping, number, text, texts
from muster.live.snapshot import Workload
from muster.live.snapshot.kueue import parse_amount
from muster.model import names
from muster.model.names import KUEUE_API_VERSION
from muster.model.stack import Stack
from muster.preview.whatif.kueue import queue_objects
from muster.preview.whatif.scenario import Decision, Outcome, Scenario, WorkloadState
from muster.render.kueue import deciding_config
from muster.render.manifest import Manifest
from muster.replay import stored
from tests import envtest
from tests.envtest import ControlPlane, Programs
from tests.envtest.kueue import definitions
from tests.integration.whatif import job_simulator
from tests.integration.whatif.job_simulator import JobSimulator, has_reason

_PATHS: Final = {
    "Namespace": "/api/v1/namespaces",
    "Topology": f"/apis/{names.KUEUE_API_VERSION}/topologies",
    "ResourceFlavor": f"/apis/{names.KUEUE_API_VERSION}/resourceflavors",
    "WorkloadPriorityClass": f"/apis/{names.KUEUE_API_VERSION}/workloadpriorityclasses",
    "Cohort": f"/apis/{names.KUEUE_API_VERSION}/cohorts",
    "ClusterQueue": f"/apis/{names.KUEUE_API_VERSION}/clusterqueues",
    "LocalQueue": f"/apis/{names.KUEUE_API_VERSION}/namespaces/{{namespace}}/localqueues",
}


def path_of(manifest: Manifest) -> str:
    """Where an object is created."""
    return _PATHS[manifest["kind"]].format(namespace=manifest["metadata"].get("namespace"))


# What Kueue may write on the temporary control plane: only what its decisions depend on.
# All other writes are refused, which saves time. Written for Kueue 0.19.2; docs/decisions/006 explains why no
# decision depends on a refused write.

USER: Final = "kueue"
_GROUP: Final = names.KUEUE_API_VERSION.partition("/")[0]
_COUNTING: Final = "kueue-counts"
_AT: Final = "/apis/rbac.authorization.k8s.io/v1"
_EVERY: Final = ["*"]


def grant(plane: ControlPlane, *, usage_counts: bool) -> None:
    """Grant Kueue's rights, before it starts. `usage_counts`: Kueue decides by the usage over time that it
    keeps in the status of LocalQueues (admission fair sharing).
    """
    kept = [f"{kind}/status" for kind in (("localqueues",) if usage_counts else ())]
    _role(
        plane,
        USER,
        {"apiGroups": _EVERY, "resources": _EVERY, "verbs": ["get", "list", "watch"]},
        _write(_GROUP, "workloads", "workloads/status", "clusterqueues", "resourceflavors", *kept),
        _write("apiextensions.k8s.io", "customresourcedefinitions"),
        _write("admissionregistration.k8s.io", *_EVERY),
        _write("", "secrets"),
    )
    _role(plane, _COUNTING, _write(_GROUP, "clusterqueues/status"))


def stop_counting(plane: ControlPlane) -> None:
    """Revoke writing ClusterQueue status. Called once all are active: from then on the status only holds
    figures.
    """
    plane.call("DELETE", f"{_AT}/clusterrolebindings/{_COUNTING}")


def _write(group: str, *resources: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": list(resources), "verbs": _EVERY}


def _role(plane: ControlPlane, name: str, *rules: dict[str, Any]) -> None:
    api, metadata = "rbac.authorization.k8s.io", {"name": name}
    role = {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": list(rules)}
    plane.apply(role, f"{_AT}/clusterroles/{name}")
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": api, "kind": "User", "name": USER}],
    }
    plane.apply(binding, f"{_AT}/clusterrolebindings/{name}")


# Writes objects straight into the etcd of a temporary API server.
# An API server sets the creation time of every object that it creates, and Kueue orders Workloads by that
# time. Written to etcd, objects keep their original times, and ten thousand of them take a second. The
# format is the one that the API server stores for a custom resource (JSON, in the storage version of its
# definition).

Each = TypeVar("Each")

# etcd's own limits: operations and bytes of one transaction (--max-txn-ops, --max-request-bytes).
_MAX_OPERATIONS: Final = 100
# All keys of a transaction have one revision. The API server counts it as seen with the first of them, and a
# list then lacks the others for good. A later revision, of a key that it does not serve, shows that all are
# seen.
_MARK: Final = "/muster/loaded"
_SECONDS: Final = aiohttp.ClientTimeout(total=60)


async def put(etcd: str, objects: Iterable[tuple[str, bytes]]) -> int:
    """Write every key and value through etcd's JSON gateway; returns how many there were.

    https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway
    """
    count = 0
    async with aiohttp.ClientSession(base_url=etcd, timeout=_SECONDS) as session:
        for batch in _batches(iter(objects)):
            puts = [
                {"requestPut": {"key": _text(key.encode()), "value": _text(value)}} for key, value in batch
            ]
            await _post(session, "/v3/kv/txn", {"success": puts})
            count += len(batch)
        await _post(session, "/v3/kv/put", {"key": _text(_MARK.encode()), "value": ""})
    return count


async def _post(session: aiohttp.ClientSession, path: str, request: Mapping[str, Any]) -> None:
    async with session.post(path, json=request) as answer:
        answer.raise_for_status()


def _batches(objects: Iterator[Each]) -> Iterator[list[Each]]:
    while batch := list(islice(objects, _MAX_OPERATIONS)):
        yield batch


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


# Waits until Kueue knows which quota is in use.
# Right after its start Kueue would assign quota a second time that Workloads hold already. It is ready when
# the status of every ClusterQueue has the condition Active, and together they count every Workload that
# holds quota.

_QUEUES: Final = f"/apis/{KUEUE_API_VERSION}/clusterqueues"
_MAX_SECONDS: Final = 600.0
# Much longer than the time between two status updates on a busy machine.
_STEADY_SECONDS: Final = 90.0
_DRAINED: Final = "HoldAndDrain"
_POLL_SECONDS: Final = 0.2
# Listing a thousand queues takes CPU time that Kueue needs, so the pause is this many times as long as the
# listing.
_LOAD_FACTOR: Final = 5


@dataclass(frozen=True, slots=True)
class UsageCount:
    """The status of all ClusterQueues together. `unreported`: how many have no condition Active yet."""

    queues: int
    unreported: int
    inactive: int
    reserving: int

    @property
    def is_active(self) -> bool:
        return not self.unreported and not self.inactive


@dataclass(frozen=True, slots=True)
class ExpectedUsage:
    """How many ClusterQueues there are, and how many Workloads they will count in the end."""

    queues: int
    reserving: int


def expected_usage(objects: Sequence[Manifest], holding: Iterable[Workload]) -> ExpectedUsage:
    """The usage that these queues will report. A drained queue releases its Workloads."""
    queues = {_name(each) for each in objects if each["kind"] == "ClusterQueue"}
    drained = {
        (each["metadata"].get("namespace"), _name(each))
        for each in objects
        if each["kind"] in ("ClusterQueue", "LocalQueue") and each["spec"].get("stopPolicy") == _DRAINED
    }
    kept = [
        each for each in holding if not drained & {(None, each.cluster_queue), (each.namespace, each.queue)}
    ]
    return ExpectedUsage(len(queues), sum(each.cluster_queue in queues for each in kept))


def wait_for_usage_sync(plane: ControlPlane, wanted: ExpectedUsage) -> bool:
    """Wait until the usage is counted, or has not changed for long; returns whether all queues are active."""
    end = time.monotonic() + _MAX_SECONDS
    last, since = UsageCount(0, 0, 0, 0), time.monotonic()
    while (now := time.monotonic()) < end:
        queues: list[Mapping[str, Any]] = []
        with suppress(
            OSError
        ):  # Kueue has just changed the definition, and the kind is not served for a moment
            queues = [*items(plane.call("GET", _QUEUES), "items")]
        count = to_usage_count(queues)
        if count != last:
            last, since = count, now
        is_whole = count.reserving >= wanted.reserving or now - since > _STEADY_SECONDS
        if is_whole and count.queues == wanted.queues and not count.unreported:
            return count.is_active
        time.sleep(max(_POLL_SECONDS, _LOAD_FACTOR * (time.monotonic() - now)))
    return False


def to_usage_count(queues: Sequence[Mapping[str, Any]]) -> UsageCount:
    statuses = [text(find_condition(each, "Active"), "status") for each in queues]
    return UsageCount(
        queues=len(statuses),
        unreported=statuses.count(""),
        inactive=statuses.count("False"),
        reserving=sum(number(each, "status", "reservingWorkloads") or 0 for each in queues),
    )


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


_AT_ONCE: Final = 32


def simulate(stack: Stack, scenario: Scenario, programs: Programs, *, max_seconds: float = 600.0) -> Outcome:
    """What Kueue decides about the snapshot's Workloads, with the queues of a stack."""
    started = time.monotonic()
    objects, config = [*queue_objects(stack), *job_simulator.probe_objects()], deciding_config(stack)
    with (
        tempfile.TemporaryDirectory(prefix="muster-what-if-", ignore_cleanup_errors=True) as folder,
        envtest.control_plane(Path(folder), programs, kinds=definitions(programs)) as plane,
    ):
        asyncio.run(_load(plane, objects, scenario.holding))
        grant(plane, usage_counts="admissionFairSharing" in config)
        with envtest.kueue(plane, programs, config=config, user=USER):
            if wait_for_usage_sync(plane, expected_usage(objects, scenario.holding)):
                stop_counting(plane)
            asyncio.run(_put(plane, scenario.waiting))
            simulator = JobSimulator(plane, equivalence=scenario.equivalence_keys())
            is_settled = asyncio.run(simulator.run(max_seconds=max_seconds))
    return _outcome(scenario, simulator, is_settled=is_settled, seconds=time.monotonic() - started)


async def _load(plane: ControlPlane, objects: Iterable[Manifest], workloads: Iterable[Workload]) -> None:
    context = ssl.create_default_context(cafile=str(plane.certificate))
    connector = aiohttp.TCPConnector(ssl=context, limit=_AT_ONCE)
    headers = {"Authorization": f"Bearer {plane.token}"}
    async with aiohttp.ClientSession(
        plane.url, connector=connector, headers=headers, timeout=_SECONDS
    ) as session:
        # Each kind after those that it refers to.
        for _, batch in groupby(objects, key=lambda each: each["kind"]):
            await asyncio.gather(*(_create(session, manifest) for manifest in batch))
    await _put(plane, workloads)


async def _put(plane: ControlPlane, workloads: Iterable[Workload]) -> None:
    await put(plane.etcd, ((stored.key(each), stored.value(each)) for each in workloads))


async def _create(session: aiohttp.ClientSession, manifest: Manifest) -> None:
    async with session.post(path_of(manifest), params={"fieldValidation": "Strict"}, json=manifest) as answer:
        if answer.status not in (201, 409):  # namespace `default` exists already
            reason = (await answer.json()).get("message", answer.reason)
            raise AssertionError(
                f"The API server refused {manifest['kind']} {manifest['metadata']['name']}: {reason}"
            )


def _outcome(scenario: Scenario, simulator: JobSimulator, *, is_settled: bool, seconds: float) -> Outcome:
    known = {stored.uid(each.namespace, each.name): each for each in scenario.snapshot.workloads}
    reasons = simulator.reasons
    decisions = {
        uid: _decision(simulator, uid, known, reasons) for uid in known if uid in simulator.workloads
    }
    return Outcome(
        decisions={each.label: each for each in decisions.values()},
        used=_used(simulator),
        is_settled=is_settled,
        seconds=seconds,
    )


def to_state(workload: object, *, was_running: bool, was_preempted: bool) -> WorkloadState:
    """The state of a stored Workload at the end."""
    if is_true(workload, "QuotaReserved"):
        return WorkloadState.RUNNING if was_running and not was_preempted else WorkloadState.ADMITTED
    return (
        WorkloadState.INACTIVE if mapping(workload, "spec").get("active") is False else WorkloadState.PENDING
    )


def _decision(
    simulator: JobSimulator,
    uid: str,
    known: dict[str, Workload],
    reasons: Mapping[Hashable, str],
) -> Decision:
    workload, before = simulator.workloads[uid], known[uid]
    by, how = simulator.preempted.get(uid, ("", ""))
    found = to_state(workload, was_running=before.is_holding, was_preempted=bool(how))
    return Decision(
        namespace=before.namespace,
        name=before.name,
        state=found,
        why=_why(simulator, uid, reasons) if found is WorkloadState.PENDING else "",
        preemptor=f"{known[by].namespace}/{known[by].name}" if by in known else "",
        how=how,
    )


def _why(simulator: JobSimulator, uid: str, reasons: Mapping[Hashable, str]) -> str:
    """Kueue's reason, or its reason for an equivalent Workload."""
    workload = simulator.workloads[uid]
    own = text(find_condition(workload, "QuotaReserved"), "message")
    return own if has_reason(workload) else reasons.get(simulator.equivalence.get(uid), own)


def _used(simulator: JobSimulator) -> dict[tuple[str, str], dict[str, int]]:
    """GPUs and TPU chips of all Workloads that hold quota at the end, by LocalQueue and flavor."""
    used: dict[tuple[str, str], dict[str, int]] = {}
    for workload in simulator.workloads.values():
        if is_true(workload, "Finished"):
            continue
        queue = text(workload, "metadata", "namespace"), text(workload, "spec", "queueName")
        for pods in items(workload, "status", "admission", "podSetAssignments"):
            for device in names.DEVICE_RESOURCES:
                if flavor := texts(pods, "flavors").get(device):
                    usage = texts(pods, "resourceUsage").get(device, "0")
                    line = used.setdefault(queue, {})
                    line[flavor] = line.get(flavor, 0) + parse_amount(device, usage)
    return used
