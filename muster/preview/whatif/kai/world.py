"""One side as the player of KAI reads it: the queues of a stack, and the work and the nodes of a snapshot."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from muster.live.fields import mapping, text
from muster.live.snapshot import Node, PodGroup, Snapshot
from muster.model.gangpolicy import KaiPolicy, OverQuota, parse_duration
from muster.model.stack import Stack
from muster.preview.whatif.kai import work
from muster.preview.whatif.kai.nodes import to_manifest
from muster.preview.whatif.kai.schedulers import to_shards
from muster.render import kai
from muster.render.manifest import Manifest
from muster.replay.kai_player import KaiWorld
from muster.replay.player import UnplayableError

_UNBOUND: Final = -1
# KAI gives up on a gang that lacks pods of its minimum for a minute (--default-staleness-grace-period).
_STALE_SECONDS: Final = 61


def to_world(stack: Stack, snapshot: Snapshot, *, nodes: Sequence[Node], seconds: float) -> KaiWorld:
    """UnplayableError where KAI 0.12 cannot have this stack."""
    groups = snapshot.pod_groups or ()
    queues = [_within_policy(stack, each) for each in kai.queues(stack)]
    _refuse_roots(queues, groups)
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
        patience=max(_STALE_SECONDS, *_protections(queues), *_protections(kai.shards(stack))),
        seconds=seconds,
    )


def _within_policy(stack: Stack, queue: Manifest) -> Manifest:
    """With `overQuota: deny` Muster's gate keeps gangs within their queue's quota of GPUs. The gate is not
    played, so the quota is the limit.
    """
    policy = stack.gang_admission.policy.kai or KaiPolicy()
    if not stack.is_gated or policy.over_quota is OverQuota.ALLOW:
        return queue
    resources = queue["spec"]["resources"]
    gpu = resources["gpu"]
    if gpu["quota"] == _UNBOUND or _UNBOUND < gpu["limit"] <= gpu["quota"]:
        return queue
    bounded = {**resources, "gpu": {**gpu, "limit": gpu["quota"]}}
    return {**queue, "spec": {**queue["spec"], "resources": bounded}}


def _refuse_roots(queues: Sequence[Manifest], groups: Sequence[PodGroup]) -> None:
    """KAI 0.12's scheduler starts no work in a queue without a parent."""
    roots = {each["metadata"]["name"] for each in queues if not text(each, "spec", "parentQueue")}
    found = next((each for each in groups if each.queue in roots), None)
    if found is not None:
        raise UnplayableError(
            f"queue {found.queue} has no parent and holds work, which KAI 0.12 would never start"
        )


def _protections(manifests: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    for each in manifests:
        for holder in (mapping(each, "spec"), mapping(each, "spec", "minRuntime")):
            for key in ("preemptMinRuntime", "reclaimMinRuntime"):
                if written := text(holder, key):
                    yield int(parse_duration(written).total_seconds()) + 1
