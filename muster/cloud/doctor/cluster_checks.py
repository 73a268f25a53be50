"""What only a running cluster shows: whether its AdmissionChecks are active, because Kueue stops each queue
whose check is not, and whether its network enforces NetworkPolicies, which two pods try that are deleted
afterwards.

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
from muster.live.fields import Json, is_true, items, mapping, number, strings, text
from muster.live.why.job_status import inactive_reason
from muster.model import gpu_operator, names
from muster.model.regions import Provider
from muster.model.stack import Stack
from muster.render import network_probe
from muster.render.network_probe import program

# Whether a pod on a GPU node gets the GPUs that it requests, or those that its environment names.
# NVIDIA's runtime obeys the variable NVIDIA_VISIBLE_DEVICES by default, and images of CUDA set it to `all`.
# The API shows who names the GPUs and, where the GPU Operator installs the runtime, whether it obeys; on
# other nodes that is in a file of the image.
# Source: https://github.com/NVIDIA/k8s-device-plugin#configuration and
# https://github.com/NVIDIA/gpu-operator at v26.7.0, assets/state-container-toolkit, read 2026-11-27

_VISIBLE_DEVICES_CHECK: Final = "GPU isolation"
_VISIBLE_DEVICES_PATH: Final = "/apis/apps/v1/daemonsets"
_PAGE: Final = 'the page "Clusters that exist, and nodes of your own" of the documentation'
# Of NVIDIA's own manifests, its chart and the GPU Operator.
_PLUGIN: Final = "nvidia-device-plugin"
_TOOLKIT: Final = "nvidia-container-toolkit"
_STRATEGY: Final = "DEVICE_LIST_STRATEGY"
_BY_VARIABLE: Final = "envvar"


def check_visible_devices(stack: Stack, api: Client) -> Iterator[Finding]:
    """One finding for each DaemonSet by which containers choose their GPUs, or one that there is none."""
    if not any(pool.is_nvidia for pool in stack.pools):
        return
    found: list[Json] = api.list_all(_VISIBLE_DEVICES_PATH, mapping)
    plugins, toolkits = _containers(found, _PLUGIN), _containers(found, _TOOLKIT)
    by_variable = [name for name, each in plugins.items() if _BY_VARIABLE in _strategies(each)]
    variable = gpu_operator.OBEYS_VARIABLE
    obeying = [name for name, each in toolkits.items() if _value(each, variable) != "false"]
    for name in by_variable:
        message = f"DaemonSet {name} names GPUs by a variable, so its nodes give any container those it names"
        yield failed(_VISIBLE_DEVICES_CHECK, message, f"set {_STRATEGY}=cdi-cri, and see {_PAGE}")
    for name in obeying:
        message = f"nodes with the runtime of DaemonSet {name} give any container the GPUs that it names"
        yield failed(_VISIBLE_DEVICES_CHECK, message, f"set {variable}=false in its env, and see {_PAGE}")
    if by_variable or obeying:
        return
    if toolkits or stack.cluster.provider is Provider.EKS:
        yield passed(
            _VISIBLE_DEVICES_CHECK,
            "a container gets the GPUs that it requests, on nodes made since Muster says so",
        )
    elif plugins:
        message = "the runtime comes with the nodes' image, whose settings the API does not show"
        yield Finding(_VISIBLE_DEVICES_CHECK, State.UNKNOWN, message, f"run the pod of {_PAGE} on a GPU node")


def _containers(found: list[Json], prefix: str) -> dict[str, Json]:
    """The first container of that name in each DaemonSet, by `namespace/name`."""
    listed: dict[str, Json] = {}
    for each in found:
        name = f"{text(each, 'metadata', 'namespace')}/{text(each, 'metadata', 'name')}"
        for container in items(each, "spec", "template", "spec", "containers"):
            if text(container, "name").startswith(prefix):
                listed.setdefault(name, container)
    return listed


def _strategies(container: Json) -> list[str]:
    """How the plugin names GPUs to the runtime: by the variable, where nothing else is written."""
    option = f"--{_STRATEGY.lower().replace('_', '-')}="
    written = [each for part in ("command", "args") for each in strings(container, part)]
    value = next((each.removeprefix(option) for each in written if each.startswith(option)), "")
    return (value or _value(container, _STRATEGY) or _BY_VARIABLE).split(",")


def _value(container: Json, variable: str) -> str:
    return next(
        (text(each, "value") for each in items(container, "env") if text(each, "name") == variable), ""
    )


_CHECK: Final = "admission checks"
_PATH: Final = f"/apis/{names.KUEUE_API_VERSION}/admissionchecks"


def check_admission(api: Client) -> Iterator[Finding]:
    """One finding for each check that is inactive. Before the first `up` there are none."""
    checks: list[Json] = api.find_all(_PATH, mapping) or []
    inactive = [each for each in checks if not is_true(each, "Active")]
    for each in inactive:
        yield _inactive(each)
    if checks and not inactive:
        active = ", ".join(sorted(text(each, "metadata", "name") for each in checks))
        yield passed(_CHECK, f"active: {active}")


def _inactive(check: Json) -> Finding:
    name, controller = text(check, "metadata", "name"), text(check, "spec", "controllerName")
    silent = f"its controller {controller} has not answered for it"
    reason = inactive_reason(check) or silent
    program = f"kubectl get pods -n {names.SYSTEM_NAMESPACE}"
    ours = f" && {program}" if controller == names.CONTROLLER_NAME else ""
    return failed(
        _CHECK,
        f"AdmissionCheck {name} is inactive, so its queues start no job: {reason}",
        f"kubectl describe admissionchecks {name}{ours}",
    )


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
        return failed(CHECK, message, _FIXES[stack.cluster.provider])
    why = program.FOUND[program.UNREACHED] if code == program.UNREACHED else where
    look = f"kubectl get pods -n {names.SYSTEM_NAMESPACE}"
    fix = f"see whether pods start there, reach each other and resolve names: {look}"
    return Finding(CHECK, State.UNKNOWN, f"not decided: {why}", fix)


_FIXES: Final = {
    Provider.EKS: (
        "run `pulumi up`: it sets enableNetworkPolicy of the add-on vpc-cni; then see its agent: "
        "kubectl logs -n kube-system -l k8s-app=aws-node -c aws-eks-nodeagent"
    ),
    Provider.GKE: "the cluster needs Dataplane V2 (ADVANCED_DATAPATH), which is chosen when it is created",
    Provider.EXISTING: (
        "install a network that enforces NetworkPolicies, such as Cilium or Calico, or enable it in yours"
    ),
}
