"""The pods of the gang-admission controller: one image, two programs, the least privileges."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from muster.components.gang_authority import CERTIFICATES, MANAGER, PROGRAM, WEBHOOKS
from muster.model import names
from muster.model.observability import Observability
from muster.model.priorities import HIGHEST
from muster.model.quantities import format_count
from muster.model.regions import Provider
from muster.model.stack import ArtifactSource, Stack
from muster.model.tenancy import MOST_OBJECTS
from muster.render.manifest import Manifest, manifest, restricted_container
from muster.render.observability import annotations

# How much of a cluster the control plane takes, and on which nodes it runs.
# Two sizes. `SMALL` is for the local cluster, where everything's requests together have to fit two cores:
# Kueue 100m, KubeRay 50m, ours 3 x 50m, that is 300m and 896 MiB. `REGULAR` is for real clusters: Kueue's
# own chart asks for 500m and 512 MiB; KubeRay's manifest for 100m with a limit of 100m, which throttles it
# from some hundred clusters on, so the limit is raised.


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Requests and limits of one container, in the spelling of Kubernetes.

    `cpu`, `memory`: what it requests.
    `cpu_limit`, `memory_limit`: its limits.
    """

    cpu: str
    memory: str
    cpu_limit: str
    memory_limit: str

    def resources(self) -> dict[str, dict[str, str]]:
        return {
            "requests": {"cpu": self.cpu, "memory": self.memory},
            "limits": {"cpu": self.cpu_limit, "memory": self.memory_limit},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Sizes of the control plane's containers.

    `kueue`, `kuberay`: of the controllers of Kueue and KubeRay.
    `manager`, `webhooks`: of the two programs of gang admission.
    `manager_replicas`: one acts, the others take over; with one, gangs wait while its pod is moved.
    `webhook_replicas`: with one, work gets no defaults and no review while its pod is moved.
    `pool`: the node pool that control pods run on, by Muster's pool label; None lets them run anywhere,
    beside the teams' work.
    """

    kueue: Size
    kuberay: Size
    manager: Size
    webhooks: Size
    manager_replicas: int = 2
    webhook_replicas: int = 1
    pool: str | None = None

    def node_selector(self) -> dict[str, str]:
        return {names.POOL_LABEL: self.pool} if self.pool else {}


def sizing_of(stack: Stack) -> Sizing:
    """The sizes that fit the stack's nodes, on the system pool where there is one."""
    if stack.artifacts is ArtifactSource.LOCAL:
        return Sizing(
            kueue=Size(cpu="100m", memory="256Mi", cpu_limit="2", memory_limit="512Mi"),
            kuberay=Size(cpu="50m", memory="128Mi", cpu_limit="1", memory_limit="512Mi"),
            manager=Size(cpu="50m", memory="128Mi", cpu_limit="1", memory_limit="512Mi"),
            webhooks=Size(cpu="50m", memory="128Mi", cpu_limit="1", memory_limit="256Mi"),
            pool=names.SYSTEM_POOL,
        )
    return Sizing(
        kueue=Size(cpu="500m", memory="512Mi", cpu_limit="4", memory_limit="4Gi"),
        kuberay=Size(cpu="200m", memory="512Mi", cpu_limit="2", memory_limit="2Gi"),
        manager=Size(cpu="200m", memory="256Mi", cpu_limit="2", memory_limit="1Gi"),
        webhooks=Size(cpu="100m", memory="128Mi", cpu_limit="1", memory_limit="512Mi"),
        webhook_replicas=2,
        pool=None if stack.cluster.provider is Provider.EXISTING else names.SYSTEM_POOL,
    )


HEALTH_PORT = 8080
HEALTH_PORT_NAME = "health"
WEBHOOK_PORT = 9443
WEBHOOK_PORT_NAME = "webhooks"

BOTH = {"app.kubernetes.io/name": PROGRAM}
"""On the pods of either program."""

# Of one build: the Deployment's controller puts it on its pods.
_BUILD = ["pod-template-hash"]


def labels(program: str) -> dict[str, str]:
    return {**BOTH, "app.kubernetes.io/component": program}


def priority() -> Manifest:
    """The class of both programs' pods: no class that a stack may define takes their nodes from them. They
    preempt no pods either, so that no rollout on a full cluster breaks a gang. Neither can ever be changed in
    the cluster: another value is another name. (The system's own classes would need a ResourceQuota on GKE.)
    """
    return manifest(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        names.OWN_PRIORITY_CLASS,
        value=HIGHEST,
        preemptionPolicy="Never",
        description="Muster's own controller: never preempted by tenants' pods, and preempts none.",
    )


def placeholder_priority() -> Manifest:
    """Of pods that bring nodes for gangs: they wait before all others and take no pod's place."""
    return manifest(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        names.PLACEHOLDER_PRIORITY_CLASS,
        value=HIGHEST,
        preemptionPolicy="Never",
        description="Muster's placeholders: they keep nodes for a gang that is not complete yet.",
    )


def placeholder_quota() -> Manifest:
    """What all gangs together may have: room for the two largest, and a bound to what the control plane
    holds.
    """
    return manifest(
        "v1",
        "ResourceQuota",
        "placeholders",
        namespace=names.PLACEHOLDER_NAMESPACE,
        spec={"hard": {"count/pods": format_count(2 * MOST_OBJECTS["pods"])}},
    )


def manager(image: pulumi.Input[str], sizing: Sizing, stack: Stack) -> dict[str, Any]:
    """The Deployment's spec. Every replica keeps its caches warm; the one with the lease acts."""
    kept = stack.tenancy.termination_grace
    return _deployment(
        MANAGER,
        [
            "manager",
            f"--health-port={HEALTH_PORT}",
            f"--lease-name={PROGRAM}",
            f"--deployment={MANAGER}",
            f"--service-name={WEBHOOKS}",
            f"--secret-name={CERTIFICATES}",
            f"--validating={PROGRAM}",
            f"--mutating={PROGRAM}",
            *(["--read-events"] if stack.placeholder_pools else []),
            *([f"--delete-without-quota={kept}"] if stack.deletes_without_quota else []),
            *(["--compute-domains"] if stack.makes_compute_domains else []),
            *(["--set-aside-broken-nodes"] if stack.closes_nodes else []),
            *(f"--gate={each.kind}" for each in stack.gated_work),
        ],
        image=image,
        size=sizing.manager,
        replicas=sizing.manager_replicas,
        seconds_to_end=60,
        sizing=sizing,
        watched=stack.observability,
    )


def webhooks(image: pulumi.Input[str], sizing: Sizing, watched: Observability) -> dict[str, Any]:
    return _deployment(
        WEBHOOKS,
        [
            "webhooks",
            f"--health-port={HEALTH_PORT}",
            f"--webhook-port={WEBHOOK_PORT}",
            f"--secret-name={CERTIFICATES}",
        ],
        image=image,
        size=sizing.webhooks,
        replicas=sizing.webhook_replicas,
        seconds_to_end=30,
        sizing=sizing,
        watched=watched,
        ports=[{"name": WEBHOOK_PORT_NAME, "containerPort": WEBHOOK_PORT}],
    )


def _deployment(
    name: str,
    args: Sequence[str],
    *,
    image: pulumi.Input[str],
    size: Size,
    replicas: int,
    seconds_to_end: int,
    sizing: Sizing,
    watched: Observability,
    ports: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    container = {
        "name": "controller",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": list(args),
        "env": [
            _from_pod("POD_NAME", "metadata.name"),
            _from_pod("POD_NAMESPACE", "metadata.namespace"),
            *_traces(name, watched),
        ],
        "ports": [{"name": HEALTH_PORT_NAME, "containerPort": HEALTH_PORT}, *ports],
        "resources": size.resources(),
        # A start reads whole caches, which takes as long as the cluster is big: only then is liveness asked.
        "startupProbe": _probe("/healthz", period=2, failures=60),
        "livenessProbe": _probe("/healthz", period=10, failures=3),
        "readinessProbe": _probe("/readyz", period=2, failures=3),
        "securityContext": restricted_container(),
    }
    pod = {
        "serviceAccountName": name,
        "priorityClassName": names.OWN_PRIORITY_CLASS,
        "nodeSelector": sizing.node_selector(),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # Two replicas on one node fall together, in one zone nearly so; on a cluster with one node they still
        # have to run. Those of the build before do not count: two of them on one node would, for as long as
        # they take to go, drive both new ones onto the other.
        "affinity": {"podAntiAffinity": _apart(name)},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": names.ZONE_LABEL,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels(name)},
                "matchLabelKeys": _BUILD,
            }
        ],
        "terminationGracePeriodSeconds": seconds_to_end,
        "containers": [container],
    }
    return {
        "replicas": replicas,
        "selector": {"matchLabels": labels(name)},
        "template": {"metadata": {"labels": labels(name), **_noted(watched)}, "spec": pod},
    }


def _apart(name: str) -> dict[str, Any]:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": labels(name)},
        "matchLabelKeys": _BUILD,
    }
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}


def _noted(watched: Observability) -> dict[str, Any]:
    found = annotations(watched, HEALTH_PORT)
    return {"annotations": dict(found)} if found else {}


def _traces(name: str, watched: Observability) -> list[dict[str, str]]:
    """OpenTelemetry's own variables; without an endpoint nothing of it is even loaded."""
    if watched.traces is None:
        return []
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": watched.traces,
        "OTEL_SERVICE_NAME": name,
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": f"{watched.sample:g}",
    }
    return [{"name": key, "value": value} for key, value in settings.items()]


def _from_pod(name: str, field: str) -> dict[str, Any]:
    # Whole, as the API server keeps it: Pulumi may have lost the Deployment and apply it to what is there.
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}}


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": HEALTH_PORT_NAME},
        "periodSeconds": period,
        "timeoutSeconds": 2,
        "failureThreshold": failures,
    }
