"""The PodDisruptionBudget of a team's namespace: no drain of a node takes a pod of running work.

`kubectl drain`, node upgrades of GKE and EKS, cluster-autoscaler and Karpenter evict pods, and an eviction
waits for the budget. Kueue, KAI, KubeRay and the controller delete pods, which no budget stops. How long each
of them waits is in docs/upgrades.md.
"""

from collections.abc import Mapping
from typing import Final

from muster.model.queues import Team
from muster.model.stack import Stack
from muster.model.tenancy import Drain
from muster.render.manifest import Manifest, manifest

# More pods than a namespace has, so that none may be missing. Pods of Ray clusters and Jobs belong to no
# resource with a scale, for which a budget takes a whole number as `minAvailable` and nothing else:
# https://kubernetes.io/docs/tasks/run-application/configure-pdb/#arbitrary-workloads-and-arbitrary-selectors
_ALL: Final = 1_000_000


def disruption(stack: Stack, team: Team, labels: Mapping[str, str]) -> list[Manifest]:
    if stack.tenancy.drain is Drain.EVICTS:
        return []
    return [
        manifest(
            "policy/v1",
            "PodDisruptionBudget",
            "running-work",
            namespace=team.namespace,
            labels=labels,
            spec={"minAvailable": _ALL, "selector": {}},
        )
    ]
