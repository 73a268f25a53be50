"""Whether the AdmissionChecks of a cluster are active. Kueue stops each queue whose check is not."""

from collections.abc import Iterator
from typing import Final

from muster.cloud.doctor.findings import Finding, State, failed, passed
from muster.kubernetes.client import Client
from muster.live.fields import Json, is_true, items, mapping, strings, text
from muster.live.why.job_status import inactive_reason
from muster.model import gpu_operator, names
from muster.model.clusters import EksCluster
from muster.model.stack import Stack

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
    if toolkits or isinstance(stack.cluster, EksCluster):
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
