"""Reads the cluster: lists only, and only what a stack file can hold or has to fit.

RBAC: list of Kueue's kinds, of KAI's where the cluster has them, of PriorityClasses, nodes and Deployments.

Also what a stack file cannot express or expresses in other words, and what it calls things.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import Client
from muster.live.fields import items, text
from muster.model import names
from muster.model.kai import OWN_CLASSES
from muster.model.programs import PLACEMENTS, Program
from muster.model.stack import Scheduler
from muster.render.manifest import Manifest
from muster.validation.identities import is_dns_label

# The kinds of a KAI cluster that a stack renders as well, and where they are listed.


@dataclass(frozen=True, slots=True)
class Kind:
    api_version: str
    plural: str

    @property
    def path(self) -> str:
        return f"/apis/{self.api_version}/{self.plural}"


KAI_KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "Queue": Kind(names.KAI_QUEUE_API_VERSION, "queues"),
        "SchedulingShard": Kind(names.KAI_SHARD_API_VERSION, "schedulingshards"),
        "Topology": Kind(names.KAI_TOPOLOGY_API_VERSION, "topologies"),
        "PriorityClass": Kind("scheduling.k8s.io/v1", "priorityclasses"),
    }
)

# Kind -> its plural. Those that a release may lack are read as empty.
_KINDS: Final[Mapping[str, str]] = {
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "Cohort": "cohorts",
    "ResourceFlavor": "resourceflavors",
    "Topology": "topologies",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "AdmissionCheck": "admissionchecks",
    "ProvisioningRequestConfig": "provisioningrequestconfigs",
    "MultiKueueConfig": "multikueueconfigs",
    "MultiKueueCluster": "multikueueclusters",
}
_PROGRAMS: Final = (Program.KUEUE, Program.KAI, Program.KUBERAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCluster:
    """`objects`: each scheduler's by kind, each list by namespace and name; of KAI, where Kueue has queues as
    well, the Queues alone. `programs`: the Deployments that run them. `is_whole` is False
    for objects of files: programs and nodes may be in the cluster all the same.
    """

    objects: Mapping[Scheduler, Mapping[str, tuple[Manifest, ...]]]
    nodes: tuple[Manifest, ...] = ()
    programs: Mapping[Program, tuple[Manifest, ...]] = field(default_factory=lambda: MappingProxyType({}))
    is_whole: bool = True

    @property
    def scheduler(self) -> Scheduler:
        """Whose queues are taken over: Kueue's, where it has any."""
        return Scheduler.KAI if self.kai("Queue") and not self.of("ClusterQueue") else Scheduler.KUEUE

    def of(self, kind: str, scheduler: Scheduler = Scheduler.KUEUE) -> tuple[Manifest, ...]:
        return self.objects.get(scheduler, {}).get(kind, ())

    def kai(self, kind: str) -> tuple[Manifest, ...]:
        return self.of(kind, Scheduler.KAI)


def fetch_cluster(api: Client) -> LiveCluster:
    """MusterError where the cluster does not answer, refuses a list, or serves no such queues."""
    queues = _listed(api, "ClusterQueue", _kueue("ClusterQueue"))
    kai = _kai(api, has_kueue=bool(queues))
    if queues is None and not kai.get("Queue"):
        raise MusterError(
            f"{api.access.server}: the cluster serves no {names.KUEUE_API_VERSION}, so it has no Kueue of "
            "0.15 or newer, and it has no Queue of KAI.",
            fix="name the context of a cluster that runs one of them, or upgrade Kueue.",
            exit_code=ExitCode.OUTSIDE,
        )
    others = {kind: _listed(api, kind, _kueue(kind)) or () for kind in _KINDS if kind != "ClusterQueue"}
    return LiveCluster(
        objects={Scheduler.KUEUE: {"ClusterQueue": queues or (), **others}, Scheduler.KAI: kai},
        nodes=tuple(api.list_all("/api/v1/nodes", _whole)),
        programs=MappingProxyType({program: _deployments(api, program) for program in _PROGRAMS}),
    )


def _kueue(kind: str) -> Kind:
    return Kind(names.KUEUE_API_VERSION, _KINDS[kind])


def _kai(api: Client, *, has_kueue: bool) -> Mapping[str, tuple[Manifest, ...]]:
    """Nothing without KAI: an account need not have rights to kinds that are not there."""
    if api.find(f"/apis/{names.KAI_QUEUE_API_VERSION}") is None:
        return MappingProxyType({})
    kinds = [kind for kind in KAI_KINDS if kind == "Queue" or not has_kueue]
    found = {kind: _listed(api, kind, KAI_KINDS[kind]) or () for kind in kinds}
    classes = found.get("PriorityClass", ())
    found["PriorityClass"] = tuple(each for each in classes if text(each, "metadata", "name") in OWN_CLASSES)
    return MappingProxyType(found)


def _listed(api: Client, kind: str, at: Kind) -> tuple[Manifest, ...] | None:
    """By namespace and name. None where the cluster does not serve the kind."""
    found = api.find_all(at.path, _whole)
    if found is None:
        return None
    whole = [{**each, "apiVersion": at.api_version, "kind": kind} for each in found]
    return tuple(sorted(whole, key=address))


def _whole(found: object) -> Manifest | None:
    return dict(found) if isinstance(found, Mapping) and isinstance(found.get("metadata"), Mapping) else None


def _deployments(api: Client, program: Program) -> tuple[Manifest, ...]:
    selector = quote(PLACEMENTS[program].selector)
    found = api.get(f"/apis/apps/v1/deployments?labelSelector={selector}")
    return tuple(dict(each) for each in items(found, "items"))


def address(body: Mapping[str, Any]) -> tuple[str, str]:
    """The namespace and name of an object."""
    metadata = body["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def title(body: Mapping[str, Any]) -> str:
    """`LocalQueue default/user-queue`."""
    namespace, name = address(body)
    return f"{body['kind']} {namespace}/{name}" if namespace else f"{body['kind']} {name}"


# What a stack file cannot express, or expresses in other words.


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`effect`: what becomes of the field or object. `matters`: something of the cluster is missing from the
    stack or would change; otherwise it means the same.
    """

    object: str
    field: str
    reason: str
    effect: str
    matters: bool = True


@dataclass(slots=True)
class Findings:
    """Collects them while the cluster is read."""

    found: list[Finding] = field(default_factory=list)

    def lost(self, what: str, where: str, reason: str, effect: str) -> None:
        self.found.append(Finding(object=what, field=where, reason=reason, effect=effect))

    def reworded(self, what: str, where: str, reason: str, effect: str) -> None:
        self.found.append(Finding(object=what, field=where, reason=reason, effect=effect, matters=False))


# Names for teams, departments and pools: those of their objects, where a stack takes them.

_FOREIGN: Final = re.compile(r"[^a-z0-9]+")
_LONGEST: Final = 63


@dataclass(slots=True)
class NameBook:
    """Names that are taken: teams and departments share one space."""

    taken: set[str] = field(default_factory=set)

    def take(self, name: str, *, suffix: str) -> str:
        """The name itself, or one like it: with the suffix, then with a number."""
        plain = to_label(name)
        candidates = [plain, f"{plain[: _LONGEST - len(suffix) - 1]}-{suffix}"]
        number = 2
        while candidates[0] in self.taken:
            candidates.pop(0)
            if not candidates:
                candidates.append(f"{plain[: _LONGEST - 6]}-{number}")
                number += 1
        self.taken.add(candidates[0])
        return candidates[0]


def to_label(name: str) -> str:
    """The name as a DNS label, which is how a stack names things."""
    if is_dns_label(name):
        return name
    return _FOREIGN.sub("-", name.lower()).strip("-")[:_LONGEST].strip("-") or "unnamed"


def named_objects(live: LiveCluster) -> dict[str, set[str]]:
    """The flavors and checks that queues name, by kind."""
    queues = (*live.of("ClusterQueue"), *live.of("Cohort"))
    groups = [group for queue in queues for group in items(queue, "spec", "resourceGroups")]
    return {
        "ResourceFlavor": {text(flavor, "name") for group in groups for flavor in items(group, "flavors")},
        "AdmissionCheck": {
            text(use, "name")
            for queue in live.of("ClusterQueue")
            for use in items(queue, "spec", "admissionChecksStrategy", "admissionChecks")
        },
    }
