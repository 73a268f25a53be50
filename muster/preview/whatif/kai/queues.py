"""The queues of a stack as KAI's player gets them, and the times by which KAI protects work in them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from muster.live.fields import mapping, text
from muster.model.gangpolicy import KaiPolicy, OverQuota
from muster.model.quantities import parse_duration
from muster.model.stack import Stack
from muster.render import kai
from muster.render.manifest import Manifest
from muster.replay.player import UnplayableError

_UNBOUND: Final = -1


def to_queues(stack: Stack) -> list[Manifest]:
    return [_within_policy(stack, each) for each in kai.queues(stack)]


def is_bounded(stack: Stack) -> bool:
    """Whether Muster's gate keeps gangs within their queue's quota of GPUs."""
    policy = stack.gang_admission.policy.kai or KaiPolicy()
    return stack.is_gated and policy.over_quota is not OverQuota.ALLOW


def protections(stack: Stack, queues: Sequence[Manifest]) -> list[int]:
    """Seconds of its run after which work is no longer protected, ascending."""
    return sorted({*_protections(queues), *_protections(kai.shards(stack))})


def refuse_roots(queues: Sequence[Manifest], used: Iterable[str]) -> None:
    """KAI 0.12's scheduler starts no work in a queue without a parent."""
    roots = {each["metadata"]["name"] for each in queues if not text(each, "spec", "parentQueue")}
    found = next((each for each in used if each in roots), None)
    if found is not None:
        raise UnplayableError(f"queue {found} has no parent and holds work, which KAI 0.12 would never start")


def _within_policy(stack: Stack, queue: Manifest) -> Manifest:
    """The gate is not played, so the quota by which it bounds gangs is the limit."""
    if not is_bounded(stack):
        return queue
    resources = queue["spec"]["resources"]
    gpu = resources["gpu"]
    if gpu["quota"] == _UNBOUND or _UNBOUND < gpu["limit"] <= gpu["quota"]:
        return queue
    bounded = {**resources, "gpu": {**gpu, "limit": gpu["quota"]}}
    return {**queue, "spec": {**queue["spec"], "resources": bounded}}


def _protections(manifests: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    for each in manifests:
        for holder in (mapping(each, "spec"), mapping(each, "spec", "minRuntime")):
            for key in ("preemptMinRuntime", "reclaimMinRuntime"):
                if written := text(holder, key):
                    yield int(parse_duration(written).total_seconds()) + 1
