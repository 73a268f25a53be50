"""The life of one Bundle: what its state holds, and create, read, update, delete against a cluster.

State: `objects` lists what may stand in the cluster because of this Bundle, `cluster` is the UID of the
cluster that it stands in. The manifests themselves are inputs and are not repeated. No gRPC here;
`provider.py` translates.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.provider.api import Cluster
from muster.provider.converge import MANAGER, Identity, Say, converge, remove
from muster.provider.deadline import Deadline
from muster.provider.drift import project
from muster.provider.manifests import Item, ManifestError, Ref, read, ref_of, rewrite


@dataclass(frozen=True, slots=True)
class Written:
    """What create or update left behind.

    With `failures` the engine keeps the state and tries again next time.
    """

    state: dict[str, Any]
    failures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """What read found: `manifests` equals the old ones where nothing drifted.

    `missing` is how many objects are gone.
    """

    manifests: dict[str, str]
    missing: int
    total: int


async def write(
    cluster: Cluster,
    manifests: Mapping[str, str],
    *,
    before: Mapping[str, str],
    state: Mapping[str, Any],
    deadline: Deadline,
    say: Say,
) -> Written:
    """Create and update alike: bring the cluster from `before` and `state` to `manifests`."""
    wanted = read(manifests)
    uid = await cluster.uid(deadline)
    outcome = await converge(
        cluster,
        wanted,
        before=_bodies(before),
        inventory=inventory(state),
        deadline=deadline,
        say=say,
    )
    return Written(state_of(uid, outcome.present.values()), tuple(outcome.failures))


async def erase(cluster: Cluster, state: Mapping[str, Any], *, deadline: Deadline, say: Say) -> Written:
    outcome = await remove(cluster, inventory(state), deadline=deadline, say=say)
    return Written(state_of(str(state.get("cluster", "")), outcome.present.values()), tuple(outcome.failures))


async def look(cluster: Cluster, manifests: Mapping[str, str], *, deadline: Deadline) -> Seen:
    """Compare with the live objects. A key without drift keeps its text to the letter."""
    items = read(manifests)
    live = await asyncio.gather(*(cluster.get(item.ref, deadline) for item in items))
    seen = {item.ref: _seen(item, body) for item, body in zip(items, live, strict=True)}
    drifted = {item.key for item in items if seen[item.ref] != item.body}
    texts = {
        key: rewrite(text, lambda body: seen[ref_of(body)]) if key in drifted else text
        for key, text in manifests.items()
    }
    return Seen(texts, sum(body is None for body in live), len(items))


def inventory(state: Mapping[str, Any]) -> list[Ref]:
    return [Ref.decode(text) for text in state.get("objects") or ()]


def state_of(uid: str, present: Any) -> dict[str, Any]:
    return {"cluster": uid, "objects": sorted(ref.encode() for ref in present)}


def _seen(item: Item, live: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if live is None or live["metadata"].get("deletionTimestamp"):
        return None
    return project(item.body, live, manager=MANAGER)


def _bodies(manifests: Mapping[str, str]) -> dict[Identity, Mapping[str, Any]]:
    """What was applied before; a text that no longer reads only costs us the right to force."""
    bodies: dict[Identity, Mapping[str, Any]] = {}
    for key, text in manifests.items():
        try:
            bodies |= {item.ref.identity: item.body for item in read({key: text})}
        except ManifestError:
            continue
    return bodies
