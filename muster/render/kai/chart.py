"""The values of KAI's chart.

The chart itself renders every object (`kaiConfig.render`), so that installing needs no hook: none to write
its Config, none to copy Kueue's topologies, and none to clean up, which ignores tolerations and hangs where
all nodes have taints (NVIDIA's own recipes switch it off for that reason). The remaining hook updates CRDs
when the chart's version changes. Queues, shards and priority classes are not in the chart; tree.py and
shards.py render them. Compared with the values of chart 0.17.0.
"""

from collections.abc import Mapping
from typing import Any, Final

from muster.model import names
from muster.model.charts import mirrored
from muster.model.clusters import Provider
from muster.model.kai.partition import sharding
from muster.model.kai.settings import Sharding
from muster.model.stack import Stack

REGISTRY: Final = "ghcr.io/kai-scheduler/kai-scheduler"
# The GPU Operator's runtime class; where GKE installs the driver itself there is none.
_RUNTIME_CLASS: Final = "nvidia"


def chart_values(stack: Stack, *, node_selector: Mapping[str, str], replicas: int) -> Mapping[str, Any]:
    """`replicas` of each of KAI's programs; from two on one leads."""
    off = {"enabled": False}
    return {
        "global": {
            "registry": mirrored(REGISTRY, stack.images.mirror) if stack.images.mirror else REGISTRY,
            "gpuSharing": stack.kai.gpu_sharing,
            "clusterAutoscaling": stack.kai.cluster_autoscaling,
            "leaderElection": replicas > 1,
            "nodeSelector": dict(node_selector),
            # The label that assigns nodes, queues and gangs to one of several shards.
            "nodePoolLabelKey": names.POOL_LABEL if sharding(stack) is Sharding.PER_POOL else "",
        },
        "operator": {"replicaCount": replicas},
        "podgrouper": {"queueLabelKey": names.KAI_QUEUE_LABEL},
        "admission": {"gpuFractionRuntimeClassName": _runtime_class(stack)},
        "kaiConfig": {"render": True},
        "kaiConfigDeployer": off,
        "topologyMigration": off,
        "postCleanup": off,
        "defaultShard": off,
        "defaultPriorityClasses": off,
        "defaultQueue": {"createDefaultQueue": False},
    }


def _runtime_class(stack: Stack) -> str:
    return "" if stack.cluster.provider is Provider.GKE else _RUNTIME_CLASS
