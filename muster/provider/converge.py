"""Bring a cluster from what a Bundle was to what it should be: apply in waves, remove what is not wanted.

A failure ends its key (the team, say), not the others; `Outcome` says what stands in the cluster and what
went wrong, so that the next run goes on from there. It decides when our field manager may force, and how
long is waited for what.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.provider.api import ApiError, Cluster, Conflict, UnknownKind, Unreachable
from muster.provider.deadline import Deadline, TimeUp
from muster.provider.fields import holds
from muster.provider.kubeconfig import KubeconfigError
from muster.provider.manifests import Item, Ref
from muster.provider.order import SHARED, apply_waves, delete_waves

MANAGER = "muster"

# On an object, this hands us the fields that others hold. It is for the author to write, never for us.
FORCE = "muster.dev/force-conflicts"

# Namespaces that a cluster cannot be without: the API server refuses to delete them.
STANDING = frozenset({"default"})

_FAULTS = (ApiError, UnknownKind, Unreachable, TimeUp, KubeconfigError)
_POLL = 0.25
_SLOW_POLL = 2.0

Say = Callable[[str], None]
Identity = tuple[str, str, str, str]


@dataclass(slots=True)
class Outcome:
    """`present`: what may stand in the cluster because of us.

    `failures`: what went wrong, ready for a reader.
    """

    present: dict[Identity, Ref] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


async def converge(
    cluster: Cluster,
    wanted: list[Item],
    *,
    before: Mapping[Identity, Mapping[str, Any]],
    inventory: Iterable[Ref],
    deadline: Deadline,
    say: Say,
) -> Outcome:
    """Apply `wanted`, then remove what `inventory` has beyond it.

    `before` holds the objects as this Bundle applied them last: fields in them are ours, and are taken back
    by force.
    """
    outcome = Outcome(present={ref.identity: ref for ref in inventory})
    broken: set[str] = set()
    done = 0
    for wave in apply_waves(wanted, lambda item: item.ref):
        runnable = [item for item in wave if item.key not in broken]
        results = await asyncio.gather(
            *(
                _apply(cluster, item, before.get(item.ref.identity), outcome, deadline, say)
                for item in runnable
            )
        )
        for item, failure in zip(runnable, results, strict=True):
            if failure:
                broken.add(item.key)
                outcome.failures.append(f"{_place(item.key)}{item.ref}: {failure}")
        done += len(wave)
        say(f"applied {done} of {len(wanted)}")
    gone = [
        ref
        for identity, ref in outcome.present.items()
        if identity not in {item.ref.identity for item in wanted}
    ]
    if gone:
        removed = await remove(cluster, gone, deadline=deadline, say=say, wait_for_shared=False)
        outcome.failures += removed.failures
        for ref in gone:
            if ref.identity not in removed.present:
                del outcome.present[ref.identity]
    return outcome


async def remove(
    cluster: Cluster, refs: Iterable[Ref], *, deadline: Deadline, say: Say, wait_for_shared: bool = True
) -> Outcome:
    """Delete and wait until each is gone. What hangs is named with the finalizers that hold it.

    With `wait_for_shared` off, what other queues still use (the flavor of a pool that left the stack)
    is only asked to go: those queues are updated after this bundle, and the last one lets it go. It stays in
    `present`, so that it is looked after until it is gone.
    """
    outcome = Outcome(present={ref.identity: ref for ref in refs})
    spaces = {ref.name for ref in outcome.present.values() if ref.kind == "Namespace"} - STANDING
    for wave in delete_waves(outcome.present.values()):
        # What lives in a namespace that goes as well goes with it: one request a team, not one an object.
        own = [ref for ref in wave if ref.namespace not in spaces]
        waiting = [wait_for_shared or ref.kind not in SHARED for ref in own]
        failures = await asyncio.gather(
            *(_remove(cluster, ref, deadline, wait=wait) for ref, wait in zip(own, waiting, strict=True))
        )
        for ref, failure, wait in zip(own, failures, waiting, strict=True):
            if failure:
                outcome.failures.append(f"{ref}: {failure}")
            elif wait:
                del outcome.present[ref.identity]
        if any(failures):
            # What comes later may need what is still here (a Kueue that lets go of its finalizers, a
            # namespace).
            break
        _drop_contents(outcome, {ref.name for ref in own if ref.kind == "Namespace"} - STANDING)
        say(f"{len(outcome.present)} still to go")
    return outcome


def _drop_contents(outcome: Outcome, spaces: set[str]) -> None:
    for identity in [each for each, ref in outcome.present.items() if ref.namespace in spaces]:
        del outcome.present[identity]


async def _apply(
    cluster: Cluster,
    item: Item,
    before: Mapping[str, Any] | None,
    outcome: Outcome,
    deadline: Deadline,
    say: Say,
) -> str | None:
    """Returns what went wrong, or None."""
    try:
        live = await _apply_settled(cluster, item, before, outcome, deadline, say)
        if item.ref.kind == "CustomResourceDefinition":
            await _established(cluster, item.ref, live, deadline)
    except ApiError as error:
        return _refusal(item, error)
    except _FAULTS as error:
        return str(error)
    return None


async def _apply_settled(
    cluster: Cluster,
    item: Item,
    before: Mapping[str, Any] | None,
    outcome: Outcome,
    deadline: Deadline,
    say: Say,
) -> dict[str, Any]:
    """Applies, and again if the object was on its way out when we met it."""
    while True:
        try:
            live = await _apply_once(cluster, item, before, deadline)
        except ApiError as error:
            if not error.terminating:
                raise
            say(f"waiting for namespace {item.ref.namespace}, which is still being deleted")
            await deadline.sleep(_SLOW_POLL)
            continue
        outcome.present[item.ref.identity] = item.ref
        if not live["metadata"].get("deletionTimestamp"):
            return live
        say(f"waiting for the old {item.ref}, which is still being deleted")
        await _gone(cluster, item.ref, live["metadata"].get("uid"), deadline)


async def _apply_once(
    cluster: Cluster, item: Item, before: Mapping[str, Any] | None, deadline: Deadline
) -> dict[str, Any]:
    annotations = item.body["metadata"].get("annotations") or {}
    force = annotations.get(FORCE) == "true"
    try:
        return await cluster.apply(item.ref, item.body, deadline, manager=MANAGER, force=force)
    except ApiError as error:
        ours = before is not None and all(holds(before, conflict.path) for conflict in error.conflicts)
        if not error.conflicts or not ours:
            raise
    return await cluster.apply(item.ref, item.body, deadline, manager=MANAGER, force=True)


async def _established(cluster: Cluster, ref: Ref, live: Mapping[str, Any], deadline: Deadline) -> None:
    """A CRD can be used once the API server serves it."""
    current: Mapping[str, Any] | None = live
    while not _condition(current, "Established"):
        await deadline.sleep(_POLL)
        current = await cluster.get(ref, deadline)
        if _condition(current, "NamesAccepted", status="False"):
            raise TimeUp("its names are taken by another CRD; see its condition NamesAccepted")


def _condition(live: Mapping[str, Any] | None, kind: str, status: str = "True") -> bool:
    conditions = ((live or {}).get("status") or {}).get("conditions") or ()
    return any(each.get("type") == kind and each.get("status") == status for each in conditions)


async def _remove(cluster: Cluster, ref: Ref, deadline: Deadline, *, wait: bool) -> str | None:
    try:
        if ref.kind == "Namespace" and ref.name in STANDING:
            await _let_go(cluster, ref, deadline)
            return None
        going = await cluster.delete(
            ref, deadline, propagation="Foreground" if _has_children(ref) else "Background"
        )
        if going is not None and wait:
            await _gone(cluster, ref, _uid(going), deadline)
    except _FAULTS as error:
        return str(error)
    return None


async def _let_go(cluster: Cluster, ref: Ref, deadline: Deadline) -> None:
    """An apply that says nothing takes our labels off and leaves the object."""
    body = {"apiVersion": "v1", "kind": ref.kind, "metadata": {"name": ref.name}}
    await cluster.apply(ref, body, deadline, manager=MANAGER, force=False)


def _has_children(ref: Ref) -> bool:
    """Whose pods must be gone before their namespace, RBAC or CRDs go."""
    return ref.group in ("apps", "batch", "ray.io")


def _uid(answer: Mapping[str, Any]) -> str | None:
    """A DELETE answers with the object while finalizers hold it, and with a Status otherwise."""
    source = answer.get("details") or {} if answer.get("kind") == "Status" else answer.get("metadata") or {}
    uid = source.get("uid")
    return str(uid) if uid else None


async def _gone(cluster: Cluster, ref: Ref, uid: str | None, deadline: Deadline) -> None:
    pause = _POLL
    live: dict[str, Any] | None = None
    try:
        while True:
            live = await cluster.get(ref, deadline)
            if live is None or (uid and live["metadata"].get("uid") != uid):
                return
            await deadline.sleep(pause)
            pause = min(pause * 1.5, _SLOW_POLL)
    except TimeUp as error:
        raise TimeUp(f"still being deleted ({error}); {_holding(ref, live)}") from None


def _holding(ref: Ref, live: Mapping[str, Any] | None) -> str:
    """What keeps an object from going, and who can change that."""
    if live is None:
        return "the cluster was not asked again"
    finalizers = live["metadata"].get("finalizers") or []
    reasons = [
        str(each.get("message"))
        for each in (live.get("status") or {}).get("conditions") or ()
        if ref.kind == "Namespace" and each.get("status") == "True" and each.get("message")
    ]
    held = f"held by finalizers {', '.join(finalizers)}" if finalizers else "held by what is still in it"
    fix = "a finalizer goes when the controller that owns it runs; see to that, then run this again"
    return "; ".join([held, *reasons, fix])


def _refusal(item: Item, error: ApiError) -> str:
    if error.conflicts:
        return _conflict(item.ref, error.conflicts)
    if item.ref.kind == "Secret":
        # The server quotes the values that it rejects.
        fields = ", ".join(sorted({str(each.get("field")) for each in error.causes if each.get("field")}))
        return f"refused ({error.reason or error.status}){f' because of {fields}' if fields else ''}"
    return error.text


def _conflict(ref: Ref, conflicts: list[Conflict]) -> str:
    managers = ", ".join(sorted({conflict.manager for conflict in conflicts}))
    fields = ", ".join(conflict.path for conflict in conflicts)
    return (
        f"{managers} holds {fields}. Leave the field out of the manifest, have {managers} let go of it, or "
        f'take it over with the annotation {FORCE}: "true" on this {ref.kind}'
    )


def _place(key: str) -> str:
    return f"[{key}] " if key else ""
