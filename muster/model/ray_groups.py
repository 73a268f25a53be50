"""How many workers a group of a Ray cluster may run: as many as its queue counted.

One rule for the policies, in CEL. Includes the meaning of an unset bound.
"""

from typing import Final

# The bounds are the defaults of KubeRay's definition (ray-operator/apis/ray/v1/raycluster_types.go). KubeRay
# raises replicas to minReplicas; a group without replicas counts as one to Kueue. A worker of no host is none
# to KubeRay (1.6.2, GetWorkerGroupDesiredReplicas) and one to Kueue (0.19.2, pkg/controller/jobs/raycluster).
_LEAST, _REPLICAS, _MOST = 0, 1, 2**31 - 1

FIX: Final = "set 0 <= minReplicas <= replicas <= maxReplicas, and numOfHosts to 1 or more"
# Of the variable `group`.
IN_CEL: Final = (
    f"{_LEAST} <= group.?minReplicas.orValue({_LEAST}) && "
    f"group.?minReplicas.orValue({_LEAST}) <= group.?replicas.orValue({_REPLICAS}) && "
    f"group.?replicas.orValue({_REPLICAS}) <= group.?maxReplicas.orValue({_MOST}) && "
    "group.?numOfHosts.orValue(1) >= 1"
)
