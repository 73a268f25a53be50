"""The system pool: the nodes on which Kueue, KubeRay, the GPU Operator's controllers and ours run.

It is apart from every pool of work, so that no job can push them out, and it has no GPU.
"""

from dataclasses import dataclass

from muster.model.machines import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPool:
    """`min_nodes` to `max_nodes` over the whole cluster, whatever its zones.

    Two nodes unless a stack says one: the second replica of what must not stop stands on the other one.
    """

    machine: Machine
    min_nodes: int = 2
    max_nodes: int = 6
