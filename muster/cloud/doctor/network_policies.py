"""Whether the cluster's network enforces NetworkPolicies: tried with two pods, which are deleted afterwards.

Clouds accept policies that their network ignores, so no object of the API answers this. Policy and Service
belong to the Job: where the command is killed, Kubernetes deletes the Job a minute after its end, and the
others with it.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from muster.cloud.doctor.findings import Finding, State, failed, passed
from muster.kubernetes.client import Client
from muster.live.fields import Json, items, mapping, number, text
from muster.model import names
from muster.model.clusters import EksCluster, GkeCluster
from muster.model.stack import Stack
from muster.render import network_probe
from muster.render.network_probe import program

CHECK: Final = "network policies"
_NAMESPACE: Final = f"namespaces/{names.SYSTEM_NAMESPACE}"
_JOBS: Final = f"/apis/batch/v1/{_NAMESPACE}/jobs"
_POLICIES: Final = f"/apis/networking.k8s.io/v1/{_NAMESPACE}/networkpolicies"
_SERVICES: Final = f"/api/v1/{_NAMESPACE}/services"
_PODS: Final = f"/api/v1/{_NAMESPACE}/pods"
_CONTROLLER: Final = f"/apis/apps/v1/{_NAMESPACE}/deployments/{names.PROGRAM}-manager"
_KEPT_SECONDS: Final = 60
_PAUSE: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Time, for the tests to replace."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


def check_network_policies(stack: Stack, api: Client, clock: Clock | None = None) -> Iterator[Finding]:
    """Make the two pods, wait for their verdict, and delete them."""
    controller = api.find(_CONTROLLER)
    if controller is None:
        message = f"not tried: {names.SYSTEM_NAMESPACE} has no controller, whose image the two pods have"
        yield Finding(CHECK, State.UNKNOWN, message, "run the command again after `pulumi up`")
        return
    job = _create(api, _JOBS, _job(controller))
    name = text(job, "metadata", "name")
    try:
        owner = _owner(job)
        _create(api, _POLICIES, network_probe.policy(name), owner)
        _create(api, _SERVICES, network_probe.service(name), owner)
        yield _finding(stack, *_verdict(api, name, clock or Clock()))
    finally:
        api.call("DELETE", f"{_JOBS}/{quote(name)}?propagationPolicy=Background")


def _job(controller: object) -> dict[str, Any]:
    """The Job, with a name that the API server makes unique: two runs do not meet."""
    pod = mapping(controller, "spec", "template", "spec")
    image = text(next(iter(items(pod, "containers")), {}), "image")
    selector = {key: str(value) for key, value in mapping(pod, "nodeSelector").items()}
    body = network_probe.job(_unique(), image=image, node_selector=selector)
    body["spec"]["ttlSecondsAfterFinished"] = _KEPT_SECONDS
    return body


def _unique() -> str:
    """The pods' names in DNS begin with it, so it has to be known before the Job is created."""
    return f"{network_probe.NAME}-{time.time_ns() // 1_000_000:x}"


def _owner(job: object) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": text(job, "metadata", "name"),
        "uid": text(job, "metadata", "uid"),
    }


def _create(api: Client, path: str, body: dict[str, Any], owner: dict[str, Any] | None = None) -> object:
    if owner is not None:
        body["metadata"]["ownerReferences"] = [owner]
    return api.call("POST", path, body)


def _verdict(api: Client, name: str, clock: Clock) -> tuple[int | None, str]:
    """The exit code of the pod that probes, None without one, and where it stands then."""
    ends = clock.now() + network_probe.MOST_SECONDS
    while True:
        job = api.get(f"{_JOBS}/{quote(name)}")
        pods = _pods(api, name)
        code = _exit_code(pods)
        over = {text(each, "type") for each in items(job, "status", "conditions")} & {"Complete", "Failed"}
        if code is not None or over or clock.now() >= ends:
            return code, _where(pods)
        clock.wait(_PAUSE)


def _pods(api: Client, name: str) -> list[Json]:
    selector = quote(f"{network_probe.JOB_LABEL}={name}")
    return items(api.get(f"{_PODS}?labelSelector={selector}"), "items")


def _exit_code(pods: list[Json]) -> int | None:
    for pod in pods:
        if text(pod, "metadata", "labels", network_probe.INDEX_LABEL) == network_probe.PROBER:
            for container in items(pod, "status", "containerStatuses"):
                return number(container, "state", "terminated", "exitCode")
    return None


def _where(pods: list[Json]) -> str:
    """Each pod with its phase and, where it waits, for what."""
    found = []
    for pod in pods:
        why = [
            text(container, "state", "waiting", "reason")
            for container in items(pod, "status", "containerStatuses")
        ] + [text(each, "message") for each in items(pod, "status", "conditions")]
        reason = next((each for each in why if each), "")
        phase = text(pod, "status", "phase") or "unknown"
        found.append(f"{text(pod, 'metadata', 'name')} is {phase}{f' ({reason})' if reason else ''}")
    return "; ".join(found) or "the Job has made no pod"


def _finding(stack: Stack, code: int | None, where: str) -> Finding:
    if code == program.ENFORCED:
        return passed(CHECK, f"enforced: {program.FOUND[code].partition(': ')[2]}")
    if code == program.NOT_ENFORCED:
        message = "NOT enforced: a port that a policy closes answered. Teams reach each other's pods"
        return failed(CHECK, message, _fix(stack))
    why = program.FOUND[program.UNREACHED] if code == program.UNREACHED else where
    look = f"kubectl get pods -n {names.SYSTEM_NAMESPACE}"
    fix = f"see whether pods start there, reach each other and resolve names: {look}"
    return Finding(CHECK, State.UNKNOWN, f"not decided: {why}", fix)


def _fix(stack: Stack) -> str:
    if isinstance(stack.cluster, EksCluster):
        return (
            "run `pulumi up`: it sets enableNetworkPolicy of the add-on vpc-cni; then see its agent: "
            "kubectl logs -n kube-system -l k8s-app=aws-node -c aws-eks-nodeagent"
        )
    if isinstance(stack.cluster, GkeCluster):
        return "the cluster needs Dataplane V2 (ADVANCED_DATAPATH), which is chosen when it is created"
    return "install a network that enforces NetworkPolicies, such as Cilium or Calico, or enable it in yours"
