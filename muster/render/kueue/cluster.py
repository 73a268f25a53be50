"""What Kueue has once in a cluster: its own configuration, Topologies, ResourceFlavors and AdmissionChecks.

The configuration (`config.kueue.x-k8s.io/v1beta2`) says which jobs Kueue manages and what it does with
admitted work whose pods do not start. The chart takes it as one string that replaces its own, so settings of
the chart that Kueue's Deployment needs (ports, leader election) are repeated here. Compared with
apis/config/v1beta2 of Kueue 0.19.2.

Kueue distinguishes pools by the pool label and those of their cloud (model/node_labels.py), and GPU pools
also by their taint.

The taint keeps a gang's CPU head on a CPU pool. A GPU flavor also has CPU and memory quota, for its GPU pods,
and Kueue tries the next flavor whenever the CPU flavor is full. A pod or the flavor's own `tolerations` must
tolerate a flavor's `nodeTaints`. With that toleration in the flavor, a CPU head would be assigned to a GPU
pool as soon as the CPU pool is full, and would wait there for a node that is never requested. So the flavor
does not have it, and a GPU pod tolerates `nvidia.com/gpu` in its template. GKE adds a second taint to the
nodes of a queued pool, and another to arm64 nodes; they distinguish nothing, and the flavor tolerates them.

Of other accelerators the same holds with their resource as the taint. GKE chooses a slice of TPUs by two
labels of the pods' node selectors, which come from the flavor.

A check provisions a queued pool's capacity before admission; others come from the stack file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from muster.model import names
from muster.model.keys import to_json
from muster.model.kueue import (
    UNCOUNTED,
    AdmissionCheck,
    CheckUse,
    Effect,
    Flavor,
    Operator,
    Parameters,
    PoolOptions,
    RequestConfig,
    Toleration,
    UsageSharing,
)
from muster.model.machines import ARM64
from muster.model.node_labels import class_label, flavor_labels
from muster.model.pools import Pool
from muster.model.regions import NodeCloud
from muster.model.stack import GangMode, PodsReady, Stack
from muster.render.manifest import Manifest, kueue

# Reconciles at a time, by kind; Kueue's own figures.
_CONCURRENCY: Final = {
    "Workload.kueue.x-k8s.io": 10,
    "LocalQueue.kueue.x-k8s.io": 5,
    "Cohort.kueue.x-k8s.io": 1,
    "ClusterQueue.kueue.x-k8s.io": 5,
    "ResourceFlavor.kueue.x-k8s.io": 1,
}

METRICS_PORT: Final = 8443
WEBHOOK_PORT: Final = 9443
# Of the aggregated API, which the API server calls; the chart's templates have it.
VISIBILITY_PORT: Final = 8082

_CONCURRENT: Final = "ConcurrentAdmission"


def manager_config(stack: Stack) -> Manifest:
    """The Configuration document."""
    kinds = sorted((kind for kind in stack.work_kinds if kind.is_queued), key=lambda kind: kind.group)
    config: Manifest = {
        "apiVersion": names.KUEUE_CONFIG_API_VERSION,
        "kind": "Configuration",
        "namespace": names.KUEUE_NAMESPACE,
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": f":{METRICS_PORT}", "enableClusterQueueResources": True},
        "webhook": {"port": WEBHOOK_PORT},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        # Every kind of work as many as plain jobs have by Kueue's own default.
        "controller": {
            "groupKindConcurrency": {f"{kind.kind}.{kind.group}": 5 for kind in kinds} | _CONCURRENCY
        },
        "clientConnection": {"qps": 300, "burst": 500},
        # The chart's list also takes in every pod, deployment and statefulset, those of the system included.
        "integrations": {"frameworks": [kind.framework for kind in kinds]},
        # Within team namespaces a job without a queue label is queued too (in LocalQueue `default`), so
        # leaving the label out is no way past the queue; outside of them Kueue touches nothing that does
        # not ask for it.
        "manageJobsWithoutQueueName": True,
        "managedJobsNamespaceSelector": {
            "matchExpressions": [{"key": names.TEAM_LABEL, "operator": "Exists"}]
        },
        "waitForPodsReady": _pods_ready(stack.pods_ready),
    }
    if gates := _gates(stack):
        # Kueue refuses to start when gates come both from here and from the chart's values.
        config["featureGates"] = gates
    said = stack.kueue
    if stack.is_weighted:
        # Weights apply only with fair sharing, which the presence of this section enables.
        config["fairSharing"] = {"preemptionStrategies": [each.value for each in said.strategies]}
    if said.usage_sharing is not None:
        config["admissionFairSharing"] = _usage(said.usage_sharing)
    resources: Manifest = {}
    if stack.uncounted_resources:
        resources["excludeResourcePrefixes"] = list(stack.uncounted_resources)
    if said.device_classes:
        resources["deviceClassMappings"] = _device_classes(said.device_classes)
    if resources:
        config["resources"] = resources
    return config


def _device_classes(classes: Mapping[str, str]) -> list[Manifest]:
    """By resource."""
    found: dict[str, list[str]] = {}
    for name, resource in sorted(classes.items()):
        found.setdefault(names.UNCOUNTED_DEVICES if resource == UNCOUNTED else resource, []).append(name)
    return [{"name": resource, "deviceClassNames": listed} for resource, listed in sorted(found.items())]


def _gates(stack: Stack) -> dict[str, bool]:
    """FlavorFungibility keeps Kueue's default, enabled. Without it 0.19.2 treats a Workload that needs an
    impossible preemption as not tried yet, requeues it immediately without end, and never reaches the
    Workloads behind it (pkg/cache/queue/cluster_queue.go, requeueIfNotPresent; observed with `muster
    what-if`).
    """
    is_concurrent = any(team.kueue.concurrent_admission is not None for _, team in stack.teams())
    return {_CONCURRENT: True} if is_concurrent else {}


def _usage(sharing: UsageSharing) -> Manifest:
    return {
        "usageHalfLifeTime": f"{sharing.half_life}s",
        "usageSamplingInterval": f"{sharing.sampling}s",
        "resourceWeights": {name: weight / 1000 for name, weight in sorted(sharing.weights.items())},
    }


def _pods_ready(bounds: PodsReady) -> Manifest:
    """Never blockAdmission: it would let one gang with a slow image hold up every other team."""
    return {
        "timeout": f"{bounds.timeout}s",
        "recoveryTimeout": f"{bounds.recovery}s",
        "blockAdmission": False,
        "requeuingStrategy": {
            "timestamp": "Eviction",
            "backoffLimitCount": bounds.retries,
            "backoffBaseSeconds": 60,
            "backoffMaxSeconds": 1800,
        },
    }


# GKE taints arm64 nodes with it, unless the node pool says otherwise. Source: TaintConfig,
# https://docs.cloud.google.com/dotnet/docs/reference/Google.Cloud.Container.V1/latest, read 2026-11-27.


def topologies(stack: Stack) -> list[Manifest]:
    return [
        kueue("Topology", each.name, spec={"levels": [{"nodeLabel": label} for label in each.levels]})
        for each in stack.kueue.topologies
    ]


def flavors(stack: Stack) -> list[Manifest]:
    labels = flavor_labels(stack)
    ours = [
        kueue("ResourceFlavor", pool.flavor, spec=_pool(pool, stack, labels[pool.name]))
        for pool in stack.pools
    ]
    return [*ours, *(kueue("ResourceFlavor", each.name, spec=_other(each)) for each in stack.kueue.flavors)]


def device_taint(pool: Pool) -> dict[str, str]:
    return {"key": pool.device, "value": names.GPU_TAINT_VALUE, "effect": names.GPU_TAINT_EFFECT}


def _pool(pool: Pool, stack: Stack, labels: Mapping[str, str]) -> Manifest:
    said = pool.kueue
    if said.exact:
        return _other(said)
    taints = [device_taint(pool)] if pool.is_gpu else []
    return _spec(
        labels=labels,
        taints=[*taints, *map(to_json, said.node_taints)],
        tolerations=[*_of_gke(pool, stack), *said.tolerations],
        topology=said.topology,
    )


def _of_gke(pool: Pool, stack: Stack) -> list[Toleration]:
    found = [names.GKE_QUEUED_TAINT_KEY] if pool.provisioning_class == names.GKE_QUEUED_CLASS else []
    found += class_label(pool, stack)
    if stack.cluster.cloud is NodeCloud.GKE and pool.architecture == ARM64:
        # https://cloud.google.com/kubernetes-engine/docs/how-to/prepare-arm-workloads-for-deployment
        found.append(names.ARCHITECTURE_LABEL)
    return [Toleration(key=key, operator=Operator.EXISTS, effect=Effect.NO_SCHEDULE) for key in found]


def _other(flavor: Flavor | PoolOptions) -> Manifest:
    """The flavor as it is written."""
    return _spec(
        labels=flavor.node_labels,
        taints=list(map(to_json, flavor.node_taints)),
        tolerations=flavor.tolerations,
        topology=flavor.topology,
    )


def _spec(
    *,
    labels: Mapping[str, str],
    taints: list[dict[str, str]],
    tolerations: Iterable[Toleration],
    topology: str | None,
) -> Manifest:
    spec: Manifest = {}
    if labels:
        spec["nodeLabels"] = dict(sorted(labels.items()))
    if taints:
        spec["nodeTaints"] = taints
    tolerated = [_toleration(each) for each in tolerations]
    if tolerated:
        spec["tolerations"] = tolerated
    if topology is not None:
        spec["topologyName"] = topology
    return spec


def _toleration(toleration: Toleration) -> Manifest:
    found: Manifest = {"operator": toleration.operator.value}
    for key, value in (
        ("key", toleration.key),
        ("value", toleration.value),
        ("effect", toleration.effect.value if toleration.effect else ""),
    ):
        if value:
            found[key] = value
    if toleration.seconds is not None:
        found["tolerationSeconds"] = toleration.seconds
    return found


# Kueue's configuration where it decides and no pod runs: on a temporary control plane, and in the player.
# Nothing times out there.

_NEVER: Final = "8760h"


def deciding_config(stack: Stack) -> Manifest:
    """The Configuration document without the settings for jobs and pods."""
    config = manager_config(stack)
    config["integrations"] = {"frameworks": ["batch/job"]}
    config["manageJobsWithoutQueueName"] = False
    config.pop("managedJobsNamespaceSelector", None)
    # On by default since 0.19, but no pod ever becomes ready here.
    config["waitForPodsReady"] = {"timeout": _NEVER, "recoveryTimeout": _NEVER, "blockAdmission": False}
    config["clientConnection"] = {"qps": 2000, "burst": 4000}
    # Each reconcile of a ClusterQueue writes the usage found so far into its status. Few workers reconcile it
    # less often and write less: 1,000 queues caused 6,279 writes with twenty workers and 778 with one.
    concurrency = {**config["controller"]["groupKindConcurrency"], "ClusterQueue.kueue.x-k8s.io": 2}
    config["controller"] = {"groupKindConcurrency": concurrency}
    return config


# A check's controllerName can never change, so Kueue's own check has other names and a stack may switch
# between them.
_BUILTIN_NAMES: Final = {
    names.GKE_QUEUED_CLASS: "builtin-gke-queued",
    names.BEST_EFFORT_ATOMIC_CLASS: "builtin-best-effort-atomic",
    names.CHECK_CAPACITY_CLASS: "builtin-check-capacity",
}


def admission_check(stack: Stack) -> list[Manifest]:
    """The AdmissionChecks of the stack, each behind the parameters it refers to."""
    configs = [_request_config(config) for config in stack.kueue.request_configs]
    return [*_capacity(stack), *configs, *(_check(check) for check in stack.kueue.admission_checks)]


def strategy(stack: Stack, flavors: list[str], used: tuple[CheckUse, ...] = ()) -> list[CheckUse]:
    """The checks of a ClusterQueue with these flavors, by flavor: capacity checks on their queued pools only,
    and the team's own checks on the pools that it names.
    """
    queued = (
        CheckUse(name=name, pools=tuple(pool.flavor for pool in pools if pool.flavor in flavors))
        for name, pools in capacity_checks(stack).items()
    )
    flavor_of = {pool.name: pool.flavor for pool in stack.pools}
    own = (replace(use, pools=tuple(flavor_of.get(pool, pool) for pool in use.pools)) for use in used)
    return [*(use for use in queued if use.pools), *own]


def capacity_checks(stack: Stack) -> dict[str, list[Pool]]:
    """Muster's one check knows every pool's class from its policy; Kueue's own needs a check for every kind
    of request.
    """
    if stack.gang_admission.mode is GangMode.OFF or not stack.gang_pools:
        return {}
    if stack.gang_admission.mode is GangMode.MUSTER:
        return {names.ADMISSION_CHECK: list(stack.gang_pools)}
    found: dict[str, list[Pool]] = {}
    for pool in stack.queued_pools:
        found.setdefault(builtin_name(pool), []).append(pool)
    return found


def builtin_name(pool: Pool) -> str:
    """The name of Kueue's own check of a pool. Pools of one name share one check, so they have to want the
    same; a pool that wants something of its own has its name in it.
    """
    said = pool.kueue.provisioning
    if said.check is not None:
        return said.check
    name = _BUILTIN_NAMES[pool.provisioning_class or names.BEST_EFFORT_ATOMIC_CLASS]
    is_plain = not pool.parameters and said == type(said)()
    return name if is_plain else f"{name}-{pool.name}"


def builtin_config(stack: Stack, pool: Pool) -> Manifest:
    """The ProvisioningRequestConfig of Kueue's own check of a pool.

    Kueue limits the number of retries, Muster their total time, so only the backoff of GangPolicy's `retry`
    is used.
    """
    said, retry = pool.kueue.provisioning, stack.gang_admission.policy.retry
    spec: Manifest = {
        "provisioningClassName": pool.provisioning_class,
        "managedResources": list(stack.managed_resources),
        "retryStrategy": {
            "backoffLimitCount": said.retries,
            "backoffBaseSeconds": int(retry.base.total_seconds()),
            "backoffMaxSeconds": int(retry.max.total_seconds()),
        },
    }
    if pool.request_parameters:
        spec["parameters"] = pool.request_parameters
    if said.merge is not None:
        spec["podSetMergePolicy"] = said.merge.value
    updates = _pod_set_updates(_node_selector(pool))
    if updates:
        spec["podSetUpdates"] = updates
    return kueue("ProvisioningRequestConfig", said.config or builtin_name(pool), spec=spec)


def _request_config(config: RequestConfig) -> Manifest:
    retry = {
        "backoffLimitCount": config.retries,
        "backoffBaseSeconds": config.base,
        "backoffMaxSeconds": config.most,
    }
    optional: Manifest = {
        "parameters": dict(config.parameters),
        "managedResources": list(config.managed_resources),
        "retryStrategy": {key: value for key, value in retry.items() if value is not None},
        "podSetMergePolicy": config.merge.value if config.merge else "",
        "podSetUpdates": _pod_set_updates(config.node_selector),
    }
    spec = {key: value for key, value in optional.items() if value}
    spec["provisioningClassName"] = config.provisioning_class
    return kueue("ProvisioningRequestConfig", config.name, spec=spec)


def _pod_set_updates(selector: Mapping[str, str]) -> Manifest:
    if not selector:
        return {}
    details = [
        {"key": key, "valueFromProvisioningClassDetail": detail} for key, detail in sorted(selector.items())
    ]
    return {"nodeSelector": details}


def _capacity(stack: Stack) -> list[Manifest]:
    checks = capacity_checks(stack)
    if stack.gang_admission.mode is GangMode.MUSTER:
        policy = Parameters(api_group=names.GROUP, kind=names.GANG_POLICY_KIND, name=names.GANG_POLICY)
        return [
            _check(AdmissionCheck(name=name, controller_name=names.CONTROLLER_NAME, parameters=policy))
            for name in checks
        ]
    return [item for name, pools in checks.items() for item in _builtin(stack, name, pools[0])]


def _builtin(stack: Stack, name: str, pool: Pool) -> list[Manifest]:
    config = builtin_config(stack, pool)
    parameters = Parameters(
        api_group="kueue.x-k8s.io", kind="ProvisioningRequestConfig", name=config["metadata"]["name"]
    )
    check = AdmissionCheck(name=name, controller_name=names.BUILTIN_CONTROLLER_NAME, parameters=parameters)
    return [config, _check(check)]


def _node_selector(pool: Pool) -> Mapping[str, str]:
    said = pool.kueue.provisioning.node_selector
    if said is not None:
        return said
    is_gke = pool.provisioning_class == names.GKE_QUEUED_CLASS
    return {names.GKE_LEASE_LABEL: names.GKE_LEASE_DETAIL} if is_gke else {}


def _check(check: AdmissionCheck) -> Manifest:
    spec: Manifest = {"controllerName": check.controller_name}
    if check.parameters is not None:
        spec["parameters"] = to_json(check.parameters)
    return kueue("AdmissionCheck", check.name, spec=spec)


# The objects that Kueue's queues refer to.


def cluster_objects(stack: Stack) -> list[Manifest]:
    """In the order in which they can be applied."""
    return [*topologies(stack), *flavors(stack), *admission_check(stack)]
