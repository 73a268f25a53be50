"""Pods of a running gang that have lost their nodes for good.

A pod on a Ready node is present; every other pod needs a node with room. Where there is none, none will be
provisioned, because the gang's request has been consumed. Uses what the pods carry, not the request, which
may be deleted while the gang runs. Pods of one PodSet may carry several claims, one of each scale-up; a pod
that is created again carries the newest. The policy decides how long nodes may be missing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from muster.controller.gangs.capacity_claims import Consumers, PodClaim, pinned_demand
from muster.controller.gangs.objects import Node, Pod
from muster.controller.gangs.split import Gang
from muster.controller.gangs.verify import Placement, PodDemand, is_usable, verify
from muster.model.pods import Amounts

Claims = Mapping[str, Sequence[PodClaim]]
"""What the pods of each PodSet carry, the newest first."""


def missing(
    gang: Gang,
    claims: Claims,
    *,
    nodes: Sequence[Node],
    pods: Iterable[Pod],
    used: Mapping[str, Amounts],
    ended: Mapping[str, int],
    spared: Collection[str] = (),
) -> tuple[Placement, ...]:
    """One Placement for each PodSet that is short. `pods`: the gang's own; `used`: what runs on `nodes`
    takes; `ended`: pods of a PodSet that are done and come back no more; `spared`: the names of nodes that
    count as theirs without being ready.
    """
    kept = {node.metadata.name for node in nodes if _is_ready(node) or node.metadata.name in spared}
    demands = tuple(_unbound(gang, claims, _on(kept, pods), ended))
    placements = verify(demands, nodes=nodes, used=used) if demands else ()
    return tuple(placement for placement in placements if not placement.is_complete)


def is_settled(
    gang: Gang, claims: Claims, *, nodes: Iterable[Node], pods: Iterable[Pod], ended: Mapping[str, int]
) -> bool:
    """Every pod is on a node that will keep it. `pods`: the gang's own, `nodes`: those that they are on."""
    usable = {node.metadata.name for node in nodes if is_usable(node)}
    return not any(_unbound(gang, claims, _on(usable, pods), ended))


def _on(nodes: Collection[str], pods: Iterable[Pod]) -> Iterator[Pod]:
    return (pod for pod in pods if pod.spec.node_name in nodes)


def _is_ready(node: Node) -> bool:
    """Cordoned or not: such a node keeps what it runs, and takes nothing new."""
    return node.status.holds("Ready") and not node.metadata.deletion_timestamp


def _unbound(
    gang: Gang, claims: Claims, bound: Iterable[Pod], ended: Mapping[str, int]
) -> Iterator[PodDemand]:
    """The pods that have no node yet. `bound`: those that have one."""
    consumers = Consumers(gang, bound, ended=ended)
    for spec in gang.request_specs:
        for demand in spec.demands if spec.flavor.verify_nodes else ():
            carried = claims.get(demand.pod_set, ())
            if carried and (
                count := consumers.lacking(demand, dict.fromkeys(claim.request for claim in carried))
            ):
                newest = carried[0]
                yield replace(pinned_demand(demand, newest.node_selector, newest.tolerations), count=count)
