"""`muster record` as a process, with an account that may only read."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from muster.config import load
from muster.model.names import OWN_PRIORITY_CLASS, SYSTEM_NAMESPACE
from muster.model.observability import RecordingSettings
from muster.model.stack import Stack
from muster.render import recorder as deployed
from muster.replay.recording import Job
from muster.replay.recording_file import load_recording
from tests.envtest import ControlPlane, path_of

_LOCAL: Final = Path(__file__).parents[2] / "stacks" / "Pulumi.local.yaml"
RBAC: Final = "rbac.authorization.k8s.io"


class RecorderProcess:
    def __init__(self, kubeconfig: Path, out: Path) -> None:
        self.kubeconfig, self.out = kubeconfig, out

    def start(self) -> subprocess.Popen[str]:
        """Returns once it watches."""
        argv = [sys.executable, "-m", "muster", "record", "--out", str(self.out)]
        return start_and_watch([*argv, "--kubeconfig", str(self.kubeconfig)])

    def jobs(self) -> dict[int, Job]:
        """By their priority, where each job of a test has another."""
        return {job.priority: job for job in load_recording(self.out).jobs}


def start_and_watch(argv: Sequence[str]) -> subprocess.Popen[str]:
    """A recorder that watches."""
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    seen: list[str] = []
    for line in process.stderr:
        seen.append(line)
        if "watching" in line:
            return process
    raise AssertionError("".join(seen))


def account(plane: ControlPlane, namespace: str, name: str, *, rules: Sequence[dict[str, Any]] = ()) -> Path:
    """A kubeconfig of a new ServiceAccount with these rights in the whole cluster."""
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
    plane.apply(body, path)
    if rules:
        head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
        role = {**head, "kind": "ClusterRole", "rules": [*rules]}
        plane.apply(role, f"/apis/{RBAC}/v1/clusterroles/{name}")
        binding = {
            **head,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        plane.apply(binding, f"/apis/{RBAC}/v1/clusterrolebindings/{name}")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return plane.kubeconfig(plane.call("POST", f"{path}/token", request)["status"]["token"], name=name)


def recording_stack(*, forecasts: bool = False) -> Stack:
    """Stack `local` with a recorder."""
    return replace(load(_LOCAL), recording=RecordingSettings(enabled=True, forecasts=forecasts))


def deploy(plane: ControlPlane, stack: Stack) -> dict[str, Any]:
    """What a stack makes for its recorder, in a namespace of the standard `restricted`; then its pod, as the
    Deployment's controller would create it.
    """
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": SYSTEM_NAMESPACE, "labels": labels},
    }
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": OWN_PRIORITY_CLASS},
        "value": 1000,
    }
    image = f"registry.test/gang-admission@sha256:{'ab' * 32}"
    made = deployed.objects(stack, image=image, node_selector={})
    bodies: list[dict[str, Any]] = [space, priority, deployed.volume(stack.recording), *made]
    for body in bodies:
        plane.apply(body, path_of(body))
    template: dict[str, Any] = made[-1]["spec"]["template"]
    pods = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods"
    metadata = {**template["metadata"], "name": deployed.NAME}
    created: dict[str, Any] = plane.call(
        "POST", f"{pods}?dryRun=All", {"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata}
    )
    return created
