"""The pods of the gang-admission controller (one image, two programs, the least privileges) and what they may
do: the least that its two programs need, as RBAC rules.

The manager reads the whole cluster and writes ProvisioningRequests and PodTemplates; with Kueue its entry in
a Workload's status and a Workload's `active`, with KAI the gates of pods. It never touches Secrets. It makes
pods only where the policy says `onStaggered: hold`, or where placeholders bring the nodes; with Kueue it asks
by dry runs whether the pods of a gang could be made. The webhooks read the policy and keep one Secret and one
webhook configuration, both by name.

RBAC cannot look into an object. What an account may patch, create or delete here is limited further by the
policies of muster/render/tenancy/policies (fences.py), so that a stolen token changes no image.

Nothing is given that nothing uses: tests/integration/test_rights.py compares the rules with what the programs
have asked for, and names the few that a run need not meet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from muster.model import names
from muster.model.observability import Observability
from muster.model.priorities import HIGHEST
from muster.model.quantities import format_count
from muster.model.regions import Provider
from muster.model.stack import ArtifactSource, Scheduler, Stack
from muster.model.tenancy import MOST_OBJECTS
from muster.model.work import PARTS
from muster.render.manifest import Manifest, manifest, restricted_container
from muster.render.observability import annotations

PROGRAM = names.PROGRAM
MANAGER = names.MANAGER
WEBHOOKS = f"{PROGRAM}-webhooks"
CERTIFICATES = names.CERTIFICATES

Rule = dict[str, Any]

_FOLLOW = ["list", "watch"]
"""What a cache needs: to read one object live is another verb."""


def _rule(group: str, resources: list[str], verbs: list[str], *, only: list[str] | None = None) -> Rule:
    named = {"resourceNames": only} if only else {}
    return {"apiGroups": [group], "resources": resources, "verbs": verbs, **named}


def manager_cluster_rules(
    scheduler: Scheduler,
    *,
    holds: bool = False,
    deletes_without_quota: bool = False,
    makes_domains: bool = False,
) -> list[Rule]:
    """Across the cluster: gangs live in the teams' namespaces, and teams come and go. `holds`: with
    `onStaggered: hold` it makes pods that keep nodes. `deletes_without_quota`: it deletes a team's pods with
    devices whose work has no quota. A policy keeps it to those. `makes_domains`: it makes
    ComputeDomains, and garbage collection deletes them.
    """
    domains = _rule("resource.nvidia.com", ["computedomains"], ["get", *_FOLLOW, "create"])
    return [
        *(_backstop_rules() if deletes_without_quota else []),
        *([_rule("", ["pods"], ["get", "create"])] if holds else []),
        *([domains] if makes_domains else []),
        *(_kai_rules() if scheduler is Scheduler.KAI else _kueue_rules()),
        _rule(names.GROUP, [names.GANG_POLICY_PLURAL], ["get", *_FOLLOW]),
        _rule(names.GROUP, [f"{names.GANG_POLICY_PLURAL}/status"], ["patch"]),
        # No finalizers: no owner that we name blocks its own deletion (muster/controller/gangs/owner.py).
        _rule("autoscaling.x-k8s.io", ["provisioningrequests"], ["get", *_FOLLOW, "create", "delete"]),
        _rule("", ["podtemplates"], ["get", *_FOLLOW, "create", "delete"]),
        _rule("", ["nodes", "pods"], _FOLLOW),
        _rule("events.k8s.io", ["events"], ["create", "patch"]),
    ]


def _kueue_rules() -> list[Rule]:
    return [
        _rule("kueue.x-k8s.io", ["workloads"], ["get", *_FOLLOW, "patch"]),
        _rule("kueue.x-k8s.io", ["admissionchecks", "resourceflavors", "clusterqueues"], _FOLLOW),
        _rule("kueue.x-k8s.io", ["workloads/status", "admissionchecks/status"], ["patch"]),
        # The claims of an elastic gang come off the templates of its cluster.
        _rule("ray.io", ["rayclusters"], ["get", "patch"]),
        # A pod of one that was born with such a claim, behind Kueue's gate for ever, is created again; and
        # placeholders go. An admission policy keeps it to these.
        _rule("", ["pods"], ["delete"]),
        # Dry runs alone, which an admission policy sees to.
        _rule("", ["pods"], ["create"]),
    ]


def _backstop_rules() -> list[Rule]:
    """Which namespaces are teams', and whose a pod is: it is read again before it is deleted. `_kueue_rules`
    has the deletion.
    """
    return [
        _rule("", ["namespaces"], _FOLLOW),
        _rule("ray.io", ["rayclusters"], _FOLLOW),
        *(_rule(each.group, [each.resource], ["get"]) for each in PARTS if not each.is_ray),
        _rule("", ["pods"], ["get"]),
    ]


def _kai_rules() -> list[Rule]:
    """A gate is lifted by a patch of the pod. A pod that has passed for capacity which is lost is deleted, so
    that KubeRay creates it again behind the gate, its history is kept on its cluster meanwhile; and
    placeholders go. Admission policies keep it to these.
    """
    return [
        _rule("ray.io", ["rayclusters"], ["get", *_FOLLOW, "patch"]),
        _rule("scheduling.run.ai", ["queues"], _FOLLOW),
        _rule("scheduling.k8s.io", ["priorityclasses"], _FOLLOW),
        _rule("", ["pods"], ["get", "patch", "delete"]),
    ]


def manager_rules() -> list[Rule]:
    """In our own namespace: the lease, and, for its shutdown, whether its own Deployment is being deleted.
    Creating cannot be limited by name.
    """
    return [
        _rule("apps", ["deployments"], ["get"], only=[MANAGER]),
        _rule("coordination.k8s.io", ["leases"], ["create"]),
        _rule("coordination.k8s.io", ["leases"], ["get", "update"], only=[PROGRAM]),
    ]


def taint_rules() -> list[Rule]:
    """Where gangs ask by placeholders, or broken nodes are set aside: our taints, as a policy says."""
    return [_rule("", ["nodes"], ["get", "patch"])]


def placeholder_rules() -> list[Rule]:
    """In the namespace of placeholders. It may delete pods that a policy knows as its own."""
    return [_rule("", ["pods"], ["get", "create"]), *event_rules()]


def event_rules() -> list[Rule]:
    """What autoscalers say about placeholders, and Karpenter about its NodeClaims."""
    return [_rule("", ["events"], _FOLLOW)]


def webhook_cluster_rules() -> list[Rule]:
    """What reviews are judged by, and the one configuration that gets our certificate authority."""
    return [
        _rule(names.GROUP, [names.GANG_POLICY_PLURAL, names.QUEUE_TREE_PLURAL], _FOLLOW),
        _rule(
            "admissionregistration.k8s.io",
            ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
            ["get", "patch"],
            only=[PROGRAM],
        ),
    ]


def webhook_rules() -> list[Rule]:
    """In our own namespace: the Secret that keeps the certificates."""
    return [
        _rule("", ["secrets"], ["create"]),
        _rule("", ["secrets"], ["get", "patch"], only=[CERTIFICATES]),
    ]


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
            *(["--read-events"] if stack.placeholder_pools else []),
            *([f"--delete-without-quota={kept}"] if stack.deletes_without_quota else []),
            *(["--compute-domains"] if stack.makes_compute_domains else []),
            *(["--set-aside-broken-nodes"] if stack.closes_nodes else []),
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
            f"--service-name={WEBHOOKS}",
            f"--secret-name={CERTIFICATES}",
            f"--validating={PROGRAM}",
            f"--mutating={PROGRAM}",
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
