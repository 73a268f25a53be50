"""Which Ray clusters may scale themselves: those whose growth Kueue queues step by step.

One rule on `enableInTreeAutoscaling` for the policies, in CEL. Only a RayCluster of its
own may be elastic: for a RayJob or RayService the templates are in two objects, and claims cannot be kept out
of both. KAI's gate counts every pod, so with KAI any cluster may scale itself.
"""

from typing import Final

from muster.model.names import ELASTIC_JOB

# Of the object, in CEL.
_ELASTIC: Final = f"object.metadata.?annotations[?'{ELASTIC_JOB}'].orValue('') == 'true'"
_SCALES: Final = "variables.cluster{when}.?enableInTreeAutoscaling.orValue(false)"
_NOW, _BEFORE = _SCALES.format(when=""), _SCALES.format(when="Before")

CLUSTER_MESSAGE: Final = (
    "a cluster that scales itself can outgrow what its queue counted; remove enableInTreeAutoscaling, or set "
    f'annotation {ELASTIC_JOB}: "true" so that each step is queued'
)
OWNED_MESSAGE: Final = (
    "enableInTreeAutoscaling is for a RayCluster of its own, whose growth is queued step by step; remove it "
    "and give the worker groups the replicas that they need at most, or use an elastic RayCluster"
)
# With the variables `cluster` and `clusterBefore`.
CLUSTER_IN_CEL: Final = f"request.resource.resource != 'rayclusters' || !{_NOW} || {_ELASTIC}"
# What scales itself already stays changeable.
OWNED_IN_CEL: Final = f"request.resource.resource == 'rayclusters' || !{_NOW} || {_BEFORE}"
