"""Bring a cluster from what a Bundle was to what it should be: apply in waves, remove what is not wanted.

A failure ends its key (a team, for example), not the others. `Outcome` lists what is in the cluster and what
went wrong, so that the next run continues from there. This module decides when our field manager may force;
what is waited for after an apply is in `readiness.py`.

In a conflict the API server writes field paths: `.spec.containers[name="main"].image` is a field, and
`.metadata.finalizers[="a"]` the member of a set.
"""

import asyncio
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster.kubernetes.errors import ApiError, Conflict, UnreachableError
from muster.kubernetes.kubeconfig import KubeconfigError
from muster.model.names import GROUP, KUEUE_API_VERSION, WRITER_ANNOTATION
from muster.provider.api import Cluster, Deadline, DeadlineError, UnknownKindError
from muster.provider.manifests import (
    IN_USE,
    SHARED,
    Item,
    Ref,
    apply_waves,
    delete_waves,
    is_verbatim,
    same_meaning,
)
from muster.provider.readiness import MANAGER, LogStatus, await_accepted, await_counted, await_established

MISSING: Final[Any] = object()

_SELECTOR = re.compile(r'\[((?:[^\]"]|"(?:[^"\\]|\\.)*")*)\]')
_PAIR = re.compile(r'([^=,"]*)=("(?:[^"\\]|\\.)*"|[^,]+)')


def holds(body: Any, path: str) -> bool:
    """Whether `body` sets the field at `path`. A path that cannot be read counts as not set."""
    return value_at(body, path) is not MISSING


def value_at(body: Any, path: str) -> Any:
    """The value of the field at `path`; MISSING where the object does not set it."""
    if not path:
        return body
    if path[0] == "." and isinstance(body, Mapping):
        rest = path[1:]
        # A key may have dots of its own (`muster.dev/team`), so the keys are tried, not the dots counted.
        found = (value_at(body[key], rest[len(key) :]) for key in body if _opens(rest, key))
        return next((each for each in found if each is not MISSING), MISSING)
    match = _SELECTOR.match(path)
    if match is None or not isinstance(body, list):
        return MISSING
    wanted = {name: _literal(text) for name, text in _PAIR.findall(match[1])}
    found = (value_at(item, path[match.end() :]) for item in body if _selected(item, wanted))
    return next((each for each in found if each is not MISSING), MISSING)


def _opens(rest: str, key: str) -> bool:
    return rest.startswith(key) and rest[len(key) : len(key) + 1] in ("", ".", "[")


def _selected(item: Any, wanted: Mapping[str, Any]) -> bool:
    if "" in wanted:
        return bool(item == wanted[""])
    return isinstance(item, Mapping) and wanted.items() <= item.items()


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# On an object, this annotation lets us take over the fields that others hold. Only the author of the manifest
# writes it; the program never does.
FORCE = f"{GROUP}/force-conflicts"

# Namespaces that a cluster cannot be without: the API server refuses to delete them.
PERMANENT_NAMESPACES = frozenset({"default"})

_KUEUE_GROUP = KUEUE_API_VERSION.partition("/")[0]

# Objects that go with data.
_DATA = frozenset({"PersistentVolumeClaim"})

_EXPECTED_ERRORS = (ApiError, UnknownKindError, UnreachableError, DeadlineError, KubeconfigError)
_POLL = 0.25
_SLOW_POLL = 2.0

Identity = tuple[str, str, str, str]


@dataclass(slots=True)
class Outcome:
    """`present`: what may be in the cluster because of us.

    `failures`: what went wrong, as messages for the user. `warnings`: what a webhook or policy denied in a
    dry run.
    """

    present: dict[Identity, Ref] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


async def converge(
    cluster: Cluster,
    wanted: list[Item],
    *,
    dry_runs: Iterable[Item] = (),
    before: Mapping[Identity, Mapping[str, Any]],
    inventory: Iterable[Ref],
    deadline: Deadline,
    log_status: LogStatus,
) -> Outcome:
    """Apply `wanted`, remove what `inventory` has beyond it, and wait until what was applied can be used.

    `before` holds the objects as this Bundle applied them last: fields in them are ours, and are taken back
    by force. `dry_runs` are objects that the API server has to accept at the end; they are never created.
    """
    outcome = Outcome(present={ref.identity: ref for ref in inventory})
    broken: set[str] = set()
    done = 0
    for wave in apply_waves(wanted, lambda item: item.ref):
        runnable = [item for item in wave if item.key not in broken]
        results = await asyncio.gather(
            *(
                _apply(cluster, item, before.get(item.ref.identity), outcome, deadline, log_status)
                for item in runnable
            )
        )
        for item, failure in zip(runnable, results, strict=True):
            if failure:
                broken.add(item.key)
                outcome.failures.append(f"{_place(item.key)}{item.ref}: {failure}")
        done += len(wave)
        log_status(f"applied {done} of {len(wanted)}")
    gone = [
        ref
        for identity, ref in outcome.present.items()
        if identity not in {item.ref.identity for item in wanted}
    ]
    if gone:
        removed = await remove(
            cluster,
            gone,
            deadline=deadline,
            log_status=log_status,
            wait_for_shared=False,
            in_use={item.ref.namespace for item in wanted},
        )
        outcome.failures += removed.failures
        for ref in gone:
            if ref.identity not in removed.present:
                del outcome.present[ref.identity]
    usable = _Usable(cluster, outcome, deadline, log_status)
    broken |= await usable.quotas([item for item in wanted if item.key not in broken])
    await usable.accepted([item for item in dry_runs if item.key not in broken])
    return outcome


@dataclass(frozen=True, slots=True)
class _Usable:
    """The waits at the end of a run: after them the objects of each key can be used."""

    cluster: Cluster
    outcome: Outcome
    deadline: Deadline
    log_status: LogStatus

    async def quotas(self, items: list[Item]) -> set[str]:
        """Wait until every ResourceQuota is counted. Returns the keys that failed."""
        quotas = [item for item in items if item.ref.kind == "ResourceQuota" and not item.ref.group]
        failures = await asyncio.gather(*(self._counted(item) for item in quotas))
        return {item.key for item, failure in zip(quotas, failures, strict=True) if failure}

    async def accepted(self, items: list[Item]) -> None:
        """Wait until every dry run is accepted."""
        await asyncio.gather(*(self._accepted(item) for item in items))

    async def _counted(self, item: Item) -> bool:
        try:
            await await_counted(self.cluster, item, self.deadline, self.log_status)
        except _EXPECTED_ERRORS as error:
            self.outcome.failures.append(f"{_place(item.key)}{item.ref}: {error}")
            return True
        return False

    async def _accepted(self, item: Item) -> None:
        place = f"{_place(item.key)}a {item.ref.kind} in namespace {item.ref.namespace}"
        try:
            denial = await await_accepted(self.cluster, item, self.deadline, self.log_status)
        except _EXPECTED_ERRORS as error:
            self.outcome.failures.append(
                f"{place} is not accepted yet: {error}. Fix: see that the webhook or controller that is "
                "named here runs, then run this again"
            )
            return
        if denial is not None:
            self.outcome.warnings.append(
                f"{place} was denied in a dry run: {denial}. Jobs that lack what this rule asks for are "
                "denied too. Fix: change the rule where it is not meant for them"
            )


async def remove(
    cluster: Cluster,
    refs: Iterable[Ref],
    *,
    deadline: Deadline,
    log_status: LogStatus,
    wait_for_shared: bool = True,
    in_use: Collection[str] = (),
) -> Outcome:
    """Delete and wait until each object is gone. An object that stays is reported with its finalizers.

    With `wait_for_shared` off, the deletion of what other queues still use (the flavor of a pool that left
    the stack) is requested and not awaited: those queues are updated after this bundle, and the last one
    releases it. It stays in `present` until it is gone.

    Namespaces `in_use` hold objects that stay, and PERMANENT_NAMESPACES cannot go: both are released, and
    what this bundle has in them is deleted one by one. The data of a namespace that is released with
    `in_use` stays as well.
    """
    outcome = Outcome(present={ref.identity: ref for ref in refs})
    released = PERMANENT_NAMESPACES.union(in_use)
    gone = {ref.name for ref in outcome.present.values() if ref.kind == "Namespace"}
    spaces = gone - released
    _drop_contents(outcome, gone.intersection(in_use), kinds=_DATA)
    for wave in delete_waves(outcome.present.values()):
        # A namespace takes its contents with it: one request a team, not one an object.
        own = [ref for ref in wave if ref.namespace not in spaces]
        waiting = [wait_for_shared or ref.kind not in SHARED for ref in own]
        failures = await asyncio.gather(
            *(
                _leave(cluster, ref, deadline)
                if ref.kind == "Namespace" and ref.name in released
                else _remove(cluster, ref, deadline, wait=wait)
                for ref, wait in zip(own, waiting, strict=True)
            )
        )
        for ref, failure, wait in zip(own, failures, waiting, strict=True):
            if failure:
                outcome.failures.append(f"{ref}: {failure}")
            elif wait:
                del outcome.present[ref.identity]
        if any(failures):
            # Later waves may need what is still here (a Kueue that removes its finalizers, a namespace).
            break
        _drop_contents(outcome, {ref.name for ref in own if ref.kind == "Namespace"} - released)
        log_status(f"{len(outcome.present)} left to delete")
    return outcome


def _drop_contents(outcome: Outcome, spaces: set[str], *, kinds: Collection[str] | None = None) -> None:
    """Of all kinds where none are named."""
    for identity, ref in list(outcome.present.items()):
        if ref.namespace in spaces and (kinds is None or ref.kind in kinds):
            del outcome.present[identity]


async def _apply(
    cluster: Cluster,
    item: Item,
    before: Mapping[str, Any] | None,
    outcome: Outcome,
    deadline: Deadline,
    log_status: LogStatus,
) -> str | None:
    """Returns what went wrong, or None."""
    try:
        live = await _apply_settled(cluster, item, before, outcome, deadline, log_status)
        if item.ref.kind == "CustomResourceDefinition":
            await await_established(cluster, item.ref, live, deadline)
        if before is not None and (writer := _writer(before)) not in (None, _writer(item.body)):
            await _release_fields(cluster, item.ref, deadline, manager=writer)
    except ApiError as error:
        return _refusal(item, error)
    except _EXPECTED_ERRORS as error:
        return str(error)
    return None


async def _apply_settled(
    cluster: Cluster,
    item: Item,
    before: Mapping[str, Any] | None,
    outcome: Outcome,
    deadline: Deadline,
    log_status: LogStatus,
) -> dict[str, Any]:
    """Applies, and again if the object was on its way out when we met it."""
    while True:
        try:
            live = await _apply_once(cluster, item, before, deadline)
        except ApiError as error:
            if not error.terminating:
                raise
            log_status(f"waiting for namespace {item.ref.namespace}, which is still being deleted")
            await deadline.sleep(_SLOW_POLL)
            continue
        outcome.present[item.ref.identity] = item.ref
        if not live["metadata"].get("deletionTimestamp"):
            return live
        if await _released(cluster, item.ref, live, deadline):
            continue
        log_status(f"waiting for the old {item.ref}, which is still being deleted")
        await _gone(cluster, item.ref, live["metadata"].get("uid"), deadline)


async def _released(cluster: Cluster, ref: Ref, live: Mapping[str, Any], deadline: Deadline) -> bool:
    """Let an object go that was deleted while Kueue's queues name it, so that it can be created again.

    Kueue keeps it until no queue names it, which would be never: the queues are to go on with the new one.
    """
    if ref.kind not in SHARED or live["metadata"].get("finalizers") != [IN_USE]:
        return False
    try:
        await cluster.remove_finalizer(ref, live, IN_USE, deadline)
    except ApiError as error:
        if error.status not in (404, 409):
            raise
        await deadline.sleep(_POLL)  # It has gone or changed meanwhile: apply looks again.
    return True


async def _apply_once(
    cluster: Cluster, item: Item, before: Mapping[str, Any] | None, deadline: Deadline
) -> dict[str, Any]:
    annotations = item.body["metadata"].get("annotations") or {}
    force = annotations.get(FORCE) == "true"
    while True:
        try:
            return await cluster.apply(item.ref, item.body, deadline, manager=MANAGER, force=force)
        except ApiError as error:
            if not error.conflicts:
                raise
            refusal = error
        if before is not None and all(holds(before, conflict.path) for conflict in refusal.conflicts):
            return await cluster.apply(item.ref, item.body, deadline, manager=MANAGER, force=True)
        live = await cluster.get(item.ref, deadline)
        if live is None or not _means_the_same(item, live, refusal.conflicts):
            raise refusal
        try:
            return await cluster.apply(item.ref, _as_read(item, live), deadline, manager=MANAGER, force=True)
        except ApiError as error:
            if error.status != 409 or error.conflicts:
                raise
        await deadline.sleep(_POLL)  # It has changed since it was read: what it means now is looked at again.


def _means_the_same(item: Item, live: Mapping[str, Any], conflicts: Iterable[Conflict]) -> bool:
    """Whether every field in conflict has the meaning already that we would give it: then only its spelling
    changes, and taking it over changes nothing for anyone. In Kueue's API alone we know what a field means.
    """
    return item.ref.group == _KUEUE_GROUP and all(
        not is_verbatim(conflict.path)
        and same_meaning(
            value_at(live, conflict.path),
            value_at(item.body, conflict.path),
            field=conflict.path.rpartition(".")[2],
        )
        for conflict in conflicts
    )


def _as_read(item: Item, live: Mapping[str, Any]) -> dict[str, Any]:
    """What the API server only takes while the object is as it was read."""
    version = {"resourceVersion": live["metadata"]["resourceVersion"]}
    return {**item.body, "metadata": {**item.body["metadata"], **version}}


async def _remove(cluster: Cluster, ref: Ref, deadline: Deadline, *, wait: bool) -> str | None:
    try:
        going = await cluster.delete(
            ref, deadline, propagation="Foreground" if _has_children(ref) else "Background"
        )
        if going is not None and wait:
            await _gone(cluster, ref, _uid(going), deadline)
    except _EXPECTED_ERRORS as error:
        return str(error)
    return None


async def _leave(cluster: Cluster, ref: Ref, deadline: Deadline) -> str | None:
    """Removes our labels and leaves the object."""
    try:
        if await cluster.get(ref, deadline) is not None:
            await _release_fields(cluster, ref, deadline, manager=MANAGER)
    except _EXPECTED_ERRORS as error:
        return str(error)
    return None


async def _release_fields(cluster: Cluster, ref: Ref, deadline: Deadline, *, manager: str) -> None:
    """An apply without fields removes those that only this manager has."""
    metadata = {"name": ref.name} | ({"namespace": ref.namespace} if ref.namespace else {})
    body = {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata}
    await cluster.apply(ref, body, deadline, manager=manager, force=False)


def _writer(body: Mapping[str, Any]) -> str | None:
    found: str | None = (body["metadata"].get("annotations") or {}).get(WRITER_ANNOTATION)
    return found


def _has_children(ref: Ref) -> bool:
    """Whether its pods must be gone before their namespace, RBAC or CRDs are deleted."""
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
    except DeadlineError as error:
        raise DeadlineError(f"still being deleted ({error}); {_holding(ref, live)}") from None


def _holding(ref: Ref, live: Mapping[str, Any] | None) -> str:
    """What keeps an object from being deleted, and how to change that."""
    if live is None:
        return "the cluster was not asked again"
    finalizers = live["metadata"].get("finalizers") or []
    reasons = [
        str(each.get("message"))
        for each in (live.get("status") or {}).get("conditions") or ()
        if ref.kind == "Namespace" and each.get("status") == "True" and each.get("message")
    ]
    held = f"held by finalizers {', '.join(finalizers)}" if finalizers else "held by what is still in it"
    fix = "Fix: see that the controller that owns the finalizer runs and removes it, then run this again"
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
        f"{managers} holds {fields}. Fix: leave the field out of the manifest, have {managers} release it, "
        f'or take it over with the annotation {FORCE}: "true" on this {ref.kind}'
    )


def _place(key: str) -> str:
    return f"[{key}] " if key else ""
