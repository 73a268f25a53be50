"""The system pool: the nodes of Kueue, KubeRay, the GPU Operator's controllers and Muster's own.

It is separate from all pools of work, so that no job can evict them, and it has no GPU.
"""

from dataclasses import dataclass

from muster.model.machines import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPool:
    """`min_nodes` to `max_nodes` for the whole cluster, over all its zones. `min_nodes` may be 0 where the
    autoscaler runs outside of the cluster (GKE).

    Two nodes by default, so that the replicas of a component can be on different nodes.
    """

    machine: Machine
    min_nodes: int = 2
    max_nodes: int = 6
