"""The pods of the gang-admission controller: one image, two programs, nothing that they could do without."""

from collections.abc import Sequence
from typing import Any

from components.footprint import Footprint, Size
from components.gang_authority import CERTIFICATES, MANAGER, PROGRAM, WEBHOOKS

HEALTH_PORT = 8080
WEBHOOK_PORT = 9443


def labels(program: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": PROGRAM, "app.kubernetes.io/component": program}


def manager(image: str, footprint: Footprint) -> dict[str, Any]:
    """The Deployment's spec. Every replica keeps its caches warm; the one with the lease acts."""
    return _deployment(
        MANAGER,
        ["manager", f"--health-port={HEALTH_PORT}", f"--lease-name={PROGRAM}"],
        image=image,
        size=footprint.manager,
        replicas=footprint.manager_replicas,
        footprint=footprint,
    )


def webhooks(image: str, footprint: Footprint) -> dict[str, Any]:
    return _deployment(
        WEBHOOKS,
        [
            "webhooks",
            f"--health-port={HEALTH_PORT}",
            f"--webhook-port={WEBHOOK_PORT}",
            f"--service-name={WEBHOOKS}",
            f"--secret-name={CERTIFICATES}",
            f"--validating={PROGRAM}",
            f"--mutating={PROGRAM}",
        ],
        image=image,
        size=footprint.webhooks,
        replicas=footprint.webhook_replicas,
        footprint=footprint,
        ports=[{"name": "webhooks", "containerPort": WEBHOOK_PORT}],
    )


def _deployment(
    name: str,
    args: Sequence[str],
    *,
    image: str,
    size: Size,
    replicas: int,
    footprint: Footprint,
    ports: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    container = {
        "name": "controller",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": list(args),
        "env": [_from_pod("POD_NAME", "metadata.name"), _from_pod("POD_NAMESPACE", "metadata.namespace")],
        "ports": [{"name": "health", "containerPort": HEALTH_PORT}, *ports],
        "resources": size.resources(),
        # A start reads whole caches, which takes as long as the cluster is big: only then is liveness asked.
        "startupProbe": _probe("/healthz", period=2, failures=60),
        "livenessProbe": _probe("/healthz", period=10, failures=3),
        "readinessProbe": _probe("/readyz", period=2, failures=3),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - the pod's own, in memory
    }
    pod = {
        "serviceAccountName": name,
        "nodeSelector": footprint.node_selector(),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # Two replicas on one node fall together; on a cluster with one node they still have to run.
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels(name)},
            }
        ],
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
        # Python's ssl reads a certificate from a file only: it passes through here, never through a disk.
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}],
    }
    return {
        "replicas": replicas,
        "selector": {"matchLabels": labels(name)},
        "template": {"metadata": {"labels": labels(name)}, "spec": pod},
    }


def _from_pod(name: str, field: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "health"},
        "periodSeconds": period,
        "timeoutSeconds": 2,
        "failureThreshold": failures,
    }
