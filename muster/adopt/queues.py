"""A ClusterQueue and its LocalQueues as a team."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from muster.adopt.cluster import title
from muster.adopt.defaults import NO_NAMESPACE, OWN_NAME
from muster.adopt.findings import Findings
from muster.adopt.groups import to_groups
from muster.adopt.weights import to_weight
from muster.live.fields import items, mapping, text, texts
from muster.model import names
from muster.model.kueue.tree import RECLAIM, WITHIN
from muster.render.manifest import Manifest

_WITHIN: Final = {kueue: ours.value for ours, kueue in WITHIN.items()}
_RECLAIM: Final = {kueue: ours.value for ours, kueue in RECLAIM.items()}
_USAGE: Final = "UsageBasedAdmissionFairSharing"
# Kueue's defaults, which a stack leaves out.
_FUNGIBILITY: Final = {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}


def to_team(
    queue: Manifest,
    doors: Sequence[Manifest],
    *,
    name: str,
    checks: Collection[str],
    is_weighted: bool,
    findings: Findings,
) -> dict[str, Any]:
    """The keys of a team. `doors` are the LocalQueues of the ClusterQueue, by namespace and name. `checks`:
    those that the stack has.
    """
    spec, own = mapping(queue, "spec"), text(queue, "metadata", "name")
    namespace = text(doors[0], "metadata", "namespace") if doors else name
    local_queue = text(doors[0], "metadata", "name") if doors else names.DEFAULT_LOCAL_QUEUE
    values: dict[str, Any] = {
        "namespace": namespace if namespace != name else None,
        "localQueue": local_queue if local_queue != names.DEFAULT_LOCAL_QUEUE else None,
        "queueing": "strict" if text(spec, "queueingStrategy") == "StrictFIFO" else None,
        "preemption": _preemption(queue, findings),
        "weight": to_weight(queue) if is_weighted else None,
    }
    kueue: dict[str, Any] = {
        "clusterQueue": own if own != name else None,
        "localQueues": _doors(queue, doors, namespace=namespace, findings=findings) or None,
        "namespaceSelector": _selector(queue, namespace, findings),
        "stopPolicy": _unless(text(spec, "stopPolicy"), "None"),
        "flavorFungibility": _fungibility(queue),
        "borrowWithinCohort": _borrow(queue),
        "admissionScope": texts(spec, "admissionScope") or None,
        "admissionChecks": _checks(queue, checks, findings) or None,
        "concurrentAdmissionPolicy": _concurrent(queue),
        "resourceGroups": to_groups(spec) or None,
    }
    return {**_present(values), "kueue": _present(kueue)}


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _unless(value: str, default: str) -> str | None:
    return value if value not in ("", default) else None


def _preemption(queue: Manifest, findings: Findings) -> dict[str, str]:
    """Both words are always written: Muster's defaults preempt, and Kueue's do not."""
    said = mapping(queue, "spec", "preemption")
    found = {}
    for key, field, words in (
        ("within", "withinClusterQueue", _WITHIN),
        ("reclaim", "reclaimWithinCohort", _RECLAIM),
    ):
        value = text(said, field) or "Never"
        if value not in words:
            findings.lost(
                title(queue), f"spec.preemption.{field}", f"{value!r} is unknown to stacks.", "left out"
            )
        found[key] = words.get(value, "never")
    return found


def _selector(queue: Manifest, namespace: str, findings: Findings) -> dict[str, Any] | None:
    """None for the team's own namespace by its name, which is a stack's default."""
    said = mapping(queue, "spec").get("namespaceSelector")
    if said is None:
        reason = "no selector lets no namespace in, and a stack without one lets the team's in."
        findings.reworded(
            title(queue), "spec.namespaceSelector", reason, f"written as namespaces without {OWN_NAME}: none"
        )
        return dict(NO_NAMESPACE)
    labels, expressions = texts(said, "matchLabels"), items(said, "matchExpressions")
    if labels == {OWN_NAME: namespace} and not expressions:
        return None
    found: dict[str, Any] = {"matchLabels": labels} if labels else {}
    if expressions:
        found["matchExpressions"] = [dict(each) for each in expressions]
    return found


def _doors(
    queue: Manifest, doors: Sequence[Manifest], *, namespace: str, findings: Findings
) -> dict[str, dict[str, Any]]:
    """The LocalQueues beyond the team's own in its own namespace."""
    if not doors:
        return {names.DEFAULT_LOCAL_QUEUE: {"namespaces": []}}
    by_name: dict[str, list[Manifest]] = {}
    for door in doors:
        by_name.setdefault(text(door, "metadata", "name"), []).append(door)
    first, found = text(doors[0], "metadata", "name"), {}
    for name, alike in by_name.items():
        settings = _door(queue, alike[0])
        for other in alike[1:]:
            if _door(queue, other) != settings:
                reason = f"differs from {title(alike[0])}, and a stack says LocalQueues of one name once."
                findings.lost(title(other), "spec", reason, "gets the settings of the first")
        for each in alike:
            _judge_weight(queue, each, findings)
        spaces = [text(each, "metadata", "namespace") for each in alike]
        if spaces != [namespace]:
            settings = {"namespaces": spaces, **settings}
        if settings or name != first:
            found[name] = settings
    return found


def _door(queue: Manifest, door: Manifest) -> dict[str, Any]:
    spec = mapping(door, "spec")
    stop = _unless(text(spec, "stopPolicy"), "None")
    weight = to_weight(door)
    return _present({"stopPolicy": stop, "weight": weight if _has_weights(queue) and weight != 1 else None})


def _has_weights(queue: Manifest) -> bool:
    """Whether the weights of its LocalQueues mean anything; only then a stack can have them."""
    return text(queue, "spec", "admissionScope", "admissionMode") == _USAGE


def _judge_weight(queue: Manifest, door: Manifest, findings: Findings) -> None:
    said, weight = mapping(door, "spec", "fairSharing").get("weight"), to_weight(door)
    if said is None or weight == 1 or (_has_weights(queue) and weight is not None):
        return
    reason = (
        f"{said!r} is no whole number from 1, which a stack's weights are."
        if _has_weights(queue)
        else f"{title(queue)} does not admit by usage, and then a stack gives its LocalQueues no weight."
    )
    findings.lost(title(door), "spec.fairSharing.weight", reason, "left out; it stays on the object")


def _fungibility(queue: Manifest) -> dict[str, str] | None:
    said = {**_FUNGIBILITY, **texts(mapping(queue, "spec"), "flavorFungibility")}
    return said if said != _FUNGIBILITY else None


def _borrow(queue: Manifest) -> dict[str, Any] | None:
    said = mapping(queue, "spec", "preemption", "borrowWithinCohort")
    if text(said, "policy") in ("", "Never"):
        return None
    keys = ("policy", "maxPriorityThreshold")
    return {key: said[key] for key in keys if said.get(key) is not None}


def _checks(queue: Manifest, known: Collection[str], findings: Findings) -> dict[str, Any]:
    used = items(mapping(queue, "spec", "admissionChecksStrategy"), "admissionChecks")
    found: dict[str, Any] = {}
    for each in used:
        if text(each, "name") not in known:
            reason = f"names check {text(each, 'name')!r}, which is not in the stack."
            effect = "left out; it stays on the object"
            findings.lost(title(queue), "spec.admissionChecksStrategy", reason, effect)
            continue
        flavors = each.get("onFlavors")
        found[text(each, "name")] = list(flavors) if isinstance(flavors, list) and flavors else "all"
    return found


def _concurrent(queue: Manifest) -> dict[str, str] | None:
    said = mapping(queue, "spec", "concurrentAdmissionPolicy", "migration")
    if not said:
        return None
    last = text(said, "constraints", "lastAcceptableFlavorName")
    return {"mode": text(said, "mode")} | ({"lastAcceptableFlavorName": last} if last else {})
