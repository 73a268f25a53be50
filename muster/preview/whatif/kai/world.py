"""One side as the player of KAI reads it: the queues of a stack, and the work and the nodes of a snapshot."""

from collections.abc import Sequence

from muster.live.snapshot import Node, Snapshot
from muster.model.stack import Stack
from muster.preview.whatif.kai import work
from muster.preview.whatif.kai.nodes import to_manifest
from muster.preview.whatif.kai.queues import protections, refuse_roots, to_queues
from muster.preview.whatif.kai.schedulers import to_shards
from muster.render import kai
from muster.replay.kai_player import STALE_SECONDS, KaiWorld


def to_world(stack: Stack, snapshot: Snapshot, *, nodes: Sequence[Node], seconds: float) -> KaiWorld:
    """UnplayableError where KAI 0.12 cannot have this stack."""
    groups = snapshot.pod_groups or ()
    queues = to_queues(stack)
    refuse_roots(queues, [each.queue for each in groups])
    return KaiWorld(
        taken=snapshot.taken,
        shards=to_shards(stack),
        queues=queues,
        nodes=[to_manifest(each) for each in nodes],
        topologies=kai.topologies(stack),
        priority_classes=kai.priority_classes(stack),
        pod_groups=[work.group_manifest(each) for each in groups],
        pods=[work.pod_manifest(group, pod) for group in groups for pod in group.pods],
        returns=True,
        patience=max(STALE_SECONDS, *protections(stack, queues)),
        seconds=seconds,
    )
