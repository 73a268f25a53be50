"""Kueue's objects as the keys of a stack file: flavors, checks, priorities and queues, under their names. A
ClusterQueue and its LocalQueues are a team.
"""

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.adopt.cluster import Findings, LiveCluster, NameBook, title
from muster.adopt.nodes import to_flavor, to_topologies
from muster.live.fields import items, mapping, strings, text, texts
from muster.live.snapshot.kueue import cohort_parents
from muster.live.snapshot.workloads import circles
from muster.model import names
from muster.model.kai import DEFAULT_QUEUE_PRIORITY
from muster.model.kueue.tree import RECLAIM, WITHIN
from muster.model.quantities import parse_quantity
from muster.render.manifest import Manifest

# What a field of Kueue's or KAI's API means where an object does not have it, by kind.
# Kueue 0.19.2, v1beta2; KAI 0.17.0. Both sides of a comparison are completed with these, so that a default
# that one side spells out is no difference.

OWN_NAME: Final = "kubernetes.io/metadata.name"
# A ClusterQueue without a selector lets no namespace in, and {} lets all in. Every namespace has its name.
NO_NAMESPACE: Final[Mapping[str, Any]] = {"matchExpressions": [{"key": OWN_NAME, "operator": "DoesNotExist"}]}

# Of a resource of a KAI Queue.
_NOTHING: Final = {"quota": 0, "limit": 0, "overQuotaWeight": 0}
_ONE: Final = {"fairSharing": {"weight": "1"}}
DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ClusterQueue": {
        **_ONE,
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "None",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {
            "withinClusterQueue": "Never",
            "reclaimWithinCohort": "Never",
            "borrowWithinCohort": {"policy": "Never"},
        },
    },
    "LocalQueue": {**_ONE, "stopPolicy": "None"},
    "Cohort": dict(_ONE),
    "Queue": {
        "priority": DEFAULT_QUEUE_PRIORITY,
        "resources": {key: dict(_NOTHING) for key in ("gpu", "cpu", "memory")},
    },
    "SchedulingShard": {"placementStrategy": {"gpu": "binpack", "cpu": "binpack"}},
    "ProvisioningRequestConfig": {
        "retryStrategy": {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}
    },
}


def completed(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with every default that it leaves out."""
    found = _over(DEFAULTS.get(kind, {}), spec)
    if kind == "ClusterQueue" and found.get("namespaceSelector") is None:
        found["namespaceSelector"] = copy.deepcopy(NO_NAMESPACE)
    return found


def _over(defaults: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = copy.deepcopy(dict(defaults))
    for key, value in spec.items():
        known = found.get(key)
        if isinstance(known, dict) and isinstance(value, Mapping):
            found[key] = _over(known, value)
        elif value is not None:
            found[key] = value
    return found


# Fair sharing weights of ClusterQueues, LocalQueues and Cohorts.

_SHARING = ("Cohort", "ClusterQueue")


def to_weight(body: Manifest) -> int | None:
    """The weight, None where there is none or a stack cannot have it."""
    value = mapping(body, "spec", "fairSharing").get("weight")
    if value is None:
        return None
    try:
        weight = parse_quantity(str(value))
    except ValueError:
        return None
    return int(weight) if weight.denominator == 1 and weight >= 1 else None


def has_weights(live: LiveCluster, findings: Findings) -> bool:
    """Whether the stack has weights. One weight in a stack gives every queue one, so it has all or none."""
    weighted = [
        each
        for kind in _SHARING
        for each in live.of(kind)
        if mapping(each, "spec", "fairSharing").get("weight") is not None
    ]
    wrong = [each for each in weighted if to_weight(each) is None]
    for each in wrong:
        value = mapping(each, "spec", "fairSharing").get("weight")
        reason = f"{value!r} is no whole number from 1, which a stack's weights are."
        effect = "no weight is in the stack; all stay on their objects, and Muster leaves them alone"
        findings.lost(title(each), "spec.fairSharing.weight", reason, effect)
    # A weight of 1 is what every queue has without one.
    return not wrong and any(to_weight(each) != 1 for each in weighted)


# Resource groups of ClusterQueues and Cohorts, as `kueue.resourceGroups` has them.

_LIMITS: Final = ("nominalQuota", "borrowingLimit", "lendingLimit")


def to_groups(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same groups, in the same order: Kueue tries flavors in order."""
    return [
        {
            "coveredResources": list(strings(group, "coveredResources")),
            "flavors": [
                {
                    "name": text(flavor, "name"),
                    "resources": [_quota(each) for each in items(flavor, "resources")],
                }
                for flavor in items(group, "flavors")
            ],
        }
        for group in items(spec, "resourceGroups")
    ]


def _quota(found: Mapping[str, object]) -> dict[str, Any]:
    limits = {key: _plain(found[key]) for key in _LIMITS if found.get(key) is not None}
    return {"name": text(found, "name"), **limits}


def _plain(amount: object) -> object:
    """A whole number as one, which reads better than in quotes."""
    return int(amount) if isinstance(amount, str) and amount.isdecimal() and len(amount) < 10 else amount


_WITHIN: Final = {kueue: ours.value for ours, kueue in WITHIN.items()}
_RECLAIM: Final = {kueue: ours.value for ours, kueue in RECLAIM.items()}
_USAGE: Final = "UsageBasedAdmissionFairSharing"


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
    default = DEFAULTS["ClusterQueue"]["flavorFungibility"]
    said = {**default, **texts(mapping(queue, "spec"), "flavorFungibility")}
    return said if said != default else None  # A stack leaves Kueue's default out.


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


# AdmissionChecks and ProvisioningRequestConfigs as `muster:kueue` has them.

_RETRY: Final = ("backoffLimitCount", "backoffBaseSeconds", "backoffMaxSeconds")


def to_checks(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """Name -> check. Kueue's own needs its configuration in the stack."""
    configs = {text(each, "metadata", "name") for each in live.of("ProvisioningRequestConfig")}
    found: dict[str, Any] = {}
    for check in live.of("AdmissionCheck"):
        spec, name = mapping(check, "spec"), text(check, "metadata", "name")
        controller, parameters = text(spec, "controllerName"), texts(spec, "parameters")
        if controller == names.BUILTIN_CONTROLLER_NAME and parameters.get("name") not in configs:
            reason = f"names a ProvisioningRequestConfig {parameters.get('name', '')!r} that does not exist."
            findings.lost(title(check), "spec.parameters", reason, "left out; the object stays as it is")
            continue
        found[name] = {"controllerName": controller} | ({"parameters": parameters} if parameters else {})
    return found


def _request_config(config: Manifest) -> dict[str, Any]:
    spec = mapping(config, "spec")
    retry = mapping(spec, "retryStrategy")
    managed = spec.get("managedResources")
    selector = items(mapping(spec, "podSetUpdates"), "nodeSelector")
    values = {
        "provisioningClassName": text(spec, "provisioningClassName"),
        "parameters": texts(spec, "parameters"),
        "managedResources": list(managed) if isinstance(managed, list) else [],
        "retryStrategy": {key: retry[key] for key in _RETRY if retry.get(key) is not None},
        "podSetMergePolicy": text(spec, "podSetMergePolicy"),
        "nodeSelector": {
            text(each, "key"): text(each, "valueFromProvisioningClassDetail") for each in selector
        },
    }
    return {key: value for key, value in values.items() if value}


# WorkloadPriorityClasses, or KAI's PriorityClasses, as `muster:priorities`.


def to_priorities(classes: Sequence[Manifest]) -> dict[str, Any]:
    """Name -> value, with the description where there is one; the highest first."""
    values = {text(each, "metadata", "name"): int(each.get("value") or 0) for each in classes}
    descriptions = {text(each, "metadata", "name"): text(each, "description") for each in classes}
    return {
        name: {"value": value, "description": descriptions[name]} if descriptions[name] else value
        for name, value in sorted(values.items(), key=lambda entry: -entry[1])
    }


_INDEPENDENT: Final = "independent"


@dataclass(frozen=True, slots=True)
class QueueTree:
    """`departments`: the value of `muster:departments`. `teams` and `cohorts`: the name in the stack of every
    ClusterQueue and of every Cohort, by the object's name.
    """

    departments: dict[str, Any]
    teams: dict[str, str]
    cohorts: dict[str, str]


class _QueueTreeBuilder:
    """Reads Cohorts as departments, with the ClusterQueues that name them as teams. A Cohort that only a name
    refers to is one as well. ClusterQueues without a Cohort are teams of a department without one. `checks`:
    the AdmissionChecks that the stack has.
    """

    def __init__(self, live: LiveCluster, checks: Collection[str], findings: Findings) -> None:
        self._live, self._checks, self._findings = live, checks, findings
        self._is_weighted = has_weights(live, findings)
        book = NameBook()
        self._teams: dict[str, str] = {}
        self._by_cohort: dict[str, list[Manifest]] = {}
        for queue in live.of("ClusterQueue"):
            name = text(queue, "metadata", "name")
            self._teams[name] = book.take(name, suffix="team")
            self._by_cohort.setdefault(text(queue, "spec", "cohortName"), []).append(queue)
        self._objects = {text(each, "metadata", "name"): each for each in live.of("Cohort")}
        self._parents = self._parents_of_all()
        self._cohorts = {name: book.take(name, suffix="cohort") for name in sorted(self._parents)}
        self._independent = book.take(_INDEPENDENT, suffix="queues")
        self._doors: dict[str, list[Manifest]] = {}
        for each in live.of("LocalQueue"):
            self._doors.setdefault(text(each, "spec", "clusterQueue"), []).append(each)

    def build(self) -> QueueTree:
        tops = [name for name, parent in self._parents.items() if not parent]
        found = {self._cohorts[name]: self._department(name) for name in sorted(tops)}
        alone = self._members("")
        if alone:
            found[self._independent] = {"kueue": {"cohort": "none"}, "teams": alone}
        for cluster_queue, doors in self._doors.items():
            if cluster_queue not in self._teams:
                for door in doors:
                    reason = f"names a ClusterQueue {cluster_queue!r} that does not exist."
                    self._findings.lost(
                        title(door), "spec.clusterQueue", reason, "left out; it stays as it is"
                    )
        return QueueTree(found, self._teams, self._cohorts)

    def _parents_of_all(self) -> dict[str, str]:
        """Every Cohort that exists or is named -> its parent, "" at the top. A circle is cut at its first."""
        parents = cohort_parents(self._objects, self._live.of("ClusterQueue"))
        for name in circles(parents):
            reason = f"is its own ancestor, through {parents[name]!r}: Kueue admits nothing in such Cohorts."
            self._findings.lost(f"Cohort {name}", "spec.parentName", reason, "written without a parent")
            parents[name] = ""
        return parents

    def _department(self, cohort: str) -> dict[str, Any]:
        body, name = self._objects.get(cohort, {}), self._cohorts[cohort]
        kueue: dict[str, Any] = {"cohort": cohort} if cohort != name else {}
        if groups := to_groups(mapping(body, "spec")):
            kueue["resourceGroups"] = groups
        below = sorted(child for child, parent in self._parents.items() if parent == cohort)
        values = {
            "weight": to_weight(body) if self._is_weighted and body else None,
            "kueue": kueue,
            "departments": {self._cohorts[child]: self._department(child) for child in below},
            "teams": self._members(cohort),
        }
        return {key: value for key, value in values.items() if value}

    def _members(self, cohort: str) -> dict[str, Any]:
        found = {}
        for queue in self._by_cohort.get(cohort, ()):
            own = text(queue, "metadata", "name")
            found[self._teams[own]] = to_team(
                queue,
                self._doors.get(own, ()),
                name=self._teams[own],
                checks=self._checks,
                is_weighted=self._is_weighted,
                findings=self._findings,
            )
        return found


_LEFT_ALONE: Final = "left out; the object stays as it is"
_ELSEWHERE: Final = ("MultiKueueConfig", "MultiKueueCluster")


def to_kueue(
    live: LiveCluster, pools: dict[str, Any], findings: Findings
) -> tuple[QueueTree, dict[str, Any]]:
    """The keys of the stack file that say what Kueue has. `pools`: those of the stack, by name."""
    checks = to_checks(live, findings)
    tree = _QueueTreeBuilder(live, checks, findings).build()
    of_pools = {each["kueue"].get("flavor", name) for name, each in pools.items()}
    flavors = {
        text(each, "metadata", "name"): to_flavor(each)
        for each in live.of("ResourceFlavor")
        if text(each, "metadata", "name") not in of_pools
    }
    kueue = {
        "install": False,
        "topologies": to_topologies(live),
        "flavors": flavors,
        "admissionChecks": checks,
        "provisioningRequestConfigs": {
            text(each, "metadata", "name"): _request_config(each)
            for each in live.of("ProvisioningRequestConfig")
        },
    }
    for kind in _ELSEWHERE:
        for each in live.of(kind):
            reason = "a stack is one cluster: Muster sends no work to others."
            findings.reworded(title(each), "", reason, _LEFT_ALONE)
    if queues := live.kai("Queue"):
        reason = f"the cluster has {len(queues)} of KAI as well, and a stack has one scheduler."
        findings.reworded("KAI", "Queues", reason, "left alone; they stay as they are")
    return tree, {
        "pools": pools,
        "kueue": {key: value for key, value in kueue.items() if value or key == "install"},
        "priorities": to_priorities(live.of("WorkloadPriorityClass")),
        "departments": tree.departments,
    }
