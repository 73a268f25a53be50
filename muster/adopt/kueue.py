"""Kueue's objects as the keys of a stack file: flavors, checks, priorities and queues, under their names."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.adopt.cluster import LiveCluster, title
from muster.adopt.findings import Findings, NameBook
from muster.adopt.kueue_team import has_weights, to_groups, to_team, to_weight
from muster.adopt.nodes import to_flavor, to_topologies
from muster.live.fields import items, mapping, text, texts
from muster.live.kueue_tree import cohort_parents
from muster.live.snapshot.queues import circles
from muster.model import names
from muster.render.manifest import Manifest

# Cohorts as departments, with the ClusterQueues that name them as teams.
#
# A Cohort that only a name refers to is one as well. ClusterQueues without a Cohort are teams of a department
# without one.

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


def to_request_configs(live: LiveCluster) -> dict[str, Any]:
    return {
        text(each, "metadata", "name"): _request_config(each) for each in live.of("ProvisioningRequestConfig")
    }


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


def to_queue_tree(live: LiveCluster, checks: Collection[str], findings: Findings) -> QueueTree:
    """Every queue of the cluster. `checks`: the AdmissionChecks that the stack has."""
    return _Builder(live, checks, findings).build()


class _Builder:
    """Reads a cluster into departments."""

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
                    where = (
                        f"LocalQueue {text(door, 'metadata', 'namespace')}/{text(door, 'metadata', 'name')}"
                    )
                    self._findings.lost(where, "spec.clusterQueue", reason, "left out; it stays as it is")
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
    tree = to_queue_tree(live, checks, findings)
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
        "provisioningRequestConfigs": to_request_configs(live),
    }
    for kind in _ELSEWHERE:
        for each in live.of(kind):
            reason = "a stack is one cluster: Muster sends no work to others."
            findings.reworded(title(each), "", reason, _LEFT_ALONE)
    if live.kai.get("Queue"):
        reason = f"the cluster has {len(live.kai['Queue'])} of KAI as well, and a stack has one scheduler."
        findings.reworded("KAI", "Queues", reason, "left alone; they stay as they are")
    return tree, {
        "pools": pools,
        "kueue": {key: value for key, value in kueue.items() if value or key == "install"},
        "priorities": to_priorities(live.of("WorkloadPriorityClass")),
        "departments": tree.departments,
    }
