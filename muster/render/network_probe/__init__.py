"""The objects that try whether a cluster's network enforces NetworkPolicies: a Job of two pods, their names
in DNS, and one policy.

Responsible for what the pods are; program.py is what they do. Both pods have the image of Muster's own
controller, and no right in the cluster. The Job fails where the policy is not enforced.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from muster.model import names
from muster.render.manifest import Manifest, manifest, restricted_container
from muster.render.network_probe.program import OPEN_PORT

NAME: Final = "network-probe"
JOB_LABEL: Final = "batch.kubernetes.io/job-name"
# Since Kubernetes 1.28: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"
LISTENER, PROBER = "0", "1"
# A new node may have to come first.
MOST_SECONDS: Final = 600

_INDEX: Final = "JOB_COMPLETION_INDEX"


def objects(*, name: str = NAME, image: Any, node_selector: Mapping[str, str]) -> list[Manifest]:
    """The policy and the Service first: both are there when the pods start. `image`: of the controller; in a
    Pulumi program it may be an output.
    """
    return [policy(name), service(name), job(name, image=image, node_selector=node_selector)]


def policy(name: str) -> Manifest:
    """One port of the listening pod is open to the other pod, and nothing else."""
    return manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        name,
        namespace=names.SYSTEM_NAMESPACE,
        spec={
            "podSelector": {"matchLabels": {JOB_LABEL: name, INDEX_LABEL: LISTENER}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [{"podSelector": {"matchLabels": {JOB_LABEL: name}}}],
                    "ports": [{"protocol": "TCP", "port": OPEN_PORT}],
                }
            ],
        },
    )


def service(name: str) -> Manifest:
    """Gives each pod its own name in DNS."""
    body = manifest(
        "v1",
        "Service",
        name,
        namespace=names.SYSTEM_NAMESPACE,
        spec={
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB_LABEL: name},
            "ports": [{"name": "open", "port": OPEN_PORT, "protocol": "TCP"}],
        },
    )
    # Its pods come after it: there is nothing to wait for.
    body["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
    return body


def job(name: str, *, image: Any, node_selector: Mapping[str, str]) -> Manifest:
    host = f"{name}-{LISTENER}.{name}.{names.SYSTEM_NAMESPACE}"
    program = (files(__name__) / "program.py").read_text(encoding="utf-8")
    container = {
        "name": "probe",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", program, f"$({_INDEX})", host],
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"cpu": "100m", "memory": "64Mi"},
        },
        # The last line that the program prints, where a person looks at the pod.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": restricted_container(),
    }
    pod = {
        "subdomain": name,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "priorityClassName": names.OWN_PRIORITY_CLASS,
        "nodeSelector": dict(node_selector),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    return manifest(
        "batch/v1",
        "Job",
        name,
        namespace=names.SYSTEM_NAMESPACE,
        spec={
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "backoffLimit": 0,
            "activeDeadlineSeconds": MOST_SECONDS,
            "template": {"spec": pod},
        },
    )
