"""Kueue's own configuration, `config.kueue.x-k8s.io/v1beta2`.

Responsible for which jobs Kueue manages and for what it does with admitted work whose pods do not start.
The chart takes this as one string that replaces its own, so settings of the chart that Kueue's Deployment
needs (ports, leader election) are repeated here. Compared with apis/config/v1beta2 of Kueue 0.19.2.
"""

from collections.abc import Mapping
from typing import Final

from muster.model import names
from muster.model.kueue import UNCOUNTED, UsageSharing
from muster.model.stack import PodsReady, Stack
from muster.render.manifest import Manifest

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
