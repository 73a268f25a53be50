"""Everything that admission does to one new object of a team: fill in, warn, refuse.

The order is the API server's: rights, defaults of the definitions, the mutating webhook, and then the
policies and the reviews of figures, of which all answers are given.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from muster.check.claims import claim_findings, claim_templates
from muster.check.definitions import (
    corrected,
    field_faults,
    fix,
    image_faults,
    kind_fault,
    resource_faults,
    runtime_faults,
    start_faults,
    unmade_faults,
    without_nulls,
)
from muster.check.manifests import Json, resource_of
from muster.check.policies import Finding, Level, Policies, Question
from muster.check.validity import controller_faults, validity_faults
from muster.controller.kube.resource import Object
from muster.controller.kueue.default_queue import mapping
from muster.controller.kueue.defaults import Defaults
from muster.controller.kueue.webhooks import Reviews
from muster.controller.runtime.review import Allow, Deny, Patch, Request, Review, Verdict, question
from muster.errors import MusterError
from muster.model import names
from muster.model.gangpolicy import GangPolicy
from muster.model.queuetree import QueueTree, Space
from muster.model.stack import GangMode, Stack
from muster.model.tenancy import Namespaces
from muster.model.violations import suggestion
from muster.model.work import BY_KIND, FOR_MEMBERS, Work
from muster.render import gang, queues, tenancy
from muster.render.queuetree import queue_tree

DEFINITION: Final = "the API server"
DEFAULTS: Final = "the webhook that fills in"
FIGURES: Final = "the webhook that compares figures"
ROLE: Final = "the role of the team's members"
NAMESPACE: Final = "the namespace"
KUBELET: Final = "the kubelet"
KUBERAY: Final = "KubeRay"
CONTROLLER: Final = "the webhook of its controller"
# Of KubeRay's definitions: what the API server sets where an author leaves it out, and rules read.
_OF_A_JOB: Final = {"submissionMode": "K8sJobMode"}
_OF_A_GROUP: Final = {"minReplicas": 0, "replicas": 0, "maxReplicas": 2**31 - 1, "numOfHosts": 1}
# As long as what the API server appends.
_GENERATED: Final = "x" * 5

_TRAINING: Final = "write a RayJob, which starts all of its pods at once, or a Job"
_SERVING: Final = "write a RayService"
_STEPS: Final = "write a Job of batch/v1 for each pod, or a RayJob for several that start at once"
_OTHERS: Final = f"{_STEPS}, and a RayService for what serves"
# What serves in place of a kind that no queue takes here, by its resource.
_INSTEAD: Final = {
    **dict.fromkeys(("jobsets", "trainjobs", "pytorchjobs", "mpijobs"), _TRAINING),
    **dict.fromkeys(("deployments", "statefulsets", "replicasets", "leaderworkersets"), _SERVING),
    **dict.fromkeys(("pods", "jobs", "daemonsets"), _STEPS),
    "persistentvolumeclaims": "mount a volume that the stack gives to the team (`volumes` of the team)",
    "serviceaccounts": "use account default, or one that the stack gives to the team (`accounts`)",
    "resourceclaimtemplates": "ask the platform team for one, of a class in muster:kueue.deviceClasses",
    **dict.fromkeys(("computedomains", "topologies"), "ask the platform team for one"),
    **dict.fromkeys(("queues", "localqueues"), "label the job with a queue of the team"),
    "podgroups": "the scheduler makes it; label the job with its queue",
    "notebooks": "write a Job, or a StatefulSet where `muster:work` lists them, and forward its port",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`object` is what would be stored; `filled` are the values that admission added, by their path."""

    object: Json
    filled: tuple[tuple[str, Any], ...]
    findings: tuple[Finding, ...]

    @property
    def is_admitted(self) -> bool:
        return all(each.level is not Level.REFUSED for each in self.findings)


class Admission:
    """The admission of one team's namespaces in a stack. An object that names none is for the first.
    `beside`: what lies beside the objects that are judged, in which their ResourceClaimTemplates are.
    """

    def __init__(self, stack: Stack, team: str, *, beside: Iterable[Json] = ()) -> None:
        known = {each.name: each for _, each in stack.teams()}
        if team not in known:
            raise MusterError(
                f"the stack has no team {team!r}.",
                fix=suggestion(team, known, noun="team") if known else "add a team to the stack first.",
            )
        if stack.tenancy.namespaces is Namespaces.EXISTING:
            raise MusterError(
                "no policy and no webhook of Muster's is in force in the namespaces of this stack, which has "
                "`muster:tenancy: {namespaces: existing}`.",
                fix="ask the cluster: kubectl create --dry-run=server -f FILE.",
            )
        self.stack, self.team = stack, team
        self.namespaces, self.access = known[team].namespaces, known[team].access
        self.tree: QueueTree = queue_tree(stack)
        # Its namespaces share their queues and priorities.
        self.space: Space = self.tree.spaces[self.namespaces[0]]
        self.policy: GangPolicy = gang.gang_policy(stack)
        self._is_ours = stack.gang_admission.mode is GangMode.MUSTER
        self._defaults = Defaults(lambda: self.tree, lambda: self.policy)
        self._reviews = Reviews(lambda: self.policy, lambda: self.tree)
        self._rules = tenancy.member_role(stack)["rules"]
        self._namespace_objects = _namespace_objects(stack)
        self._claimed = claim_templates(beside)
        self._policies = Policies(tenancy.admission_objects(stack))

    def review(self, body: Json) -> Answer:
        """Answer the creation of an object by a member of the team."""
        if fault := kind_fault(body):
            refusal = Finding(Level.REFUSED, DEFINITION, fault)
            return Answer(object=body, filled=(), findings=(refusal,))
        group, version, resource = resource_of(body)
        now = without_nulls(body)
        findings = list(self._rights(now, group, resource))
        faults = list(field_faults(now))
        malformed = any(is_unreadable for _, is_unreadable in faults)
        if now["metadata"].get("namespace") not in self.namespaces:
            now["metadata"]["namespace"] = self.namespaces[0]
        complete(now)
        if any(each.by == ROLE for each in findings):
            return Answer(object=now, filled=(), findings=tuple(findings))
        findings += [Finding(Level.REFUSED, DEFINITION, message) for message, _ in faults]
        filled: list[tuple[str, Any]] = []
        kind = now["kind"].lower()
        if self._is_ours:
            verdict = self._default(now)
            if isinstance(verdict, Deny):
                findings.append(Finding(Level.REFUSED, DEFAULTS, verdict.message))
            elif isinstance(verdict, Patch):
                # An empty mapping is the way to a field, which follows.
                for operation in verdict.operations:
                    path = apply(now, operation)
                    filled += [(path, operation["value"])] if operation["value"] != {} else []
        asked = Question(
            group=group,
            version=version,
            resource=resource,
            operation="CREATE",
            variables=self._variables(now, group, version, resource),
        )
        findings += self._policies.judge(asked, is_malformed=malformed)
        findings += [Finding(Level.WARNED, KUBELET, each) for each in image_faults(now)]
        of_ray = (*runtime_faults(now), *start_faults(now))
        findings += [Finding(Level.WARNED, KUBERAY, each) for each in of_ray]
        findings += [
            Finding(Level.WARNED, NAMESPACE, each) for each in unmade_faults(now, self.stack, self.access)
        ]
        if not self._is_ours or self.tree.kai:  # No webhook compares them with the queue's.
            nodes = {name for flavor in self.policy.flavors for name in flavor.node}
            findings += [Finding(Level.WARNED, DEFINITION, each) for each in resource_faults(now, nodes)]
        if not malformed:  # None reads what has another type.
            findings += [Finding(Level.REFUSED, DEFINITION, each) for each in validity_faults(now)]
            findings += [Finding(Level.REFUSED, CONTROLLER, each) for each in controller_faults(now)]
            findings += claim_findings(self.stack, now, self._claimed)
            findings += self._figures(now, kind) if self._is_ours else ()
        return Answer(object=now, filled=tuple(filled), findings=tuple(findings))

    def fixed(self, body: Json) -> Json:
        """The object with what an author may leave out: its namespace, and all that admission fills in, also
        in the jobs of a CronJob, in which admission fills nothing in; and with what has one right answer
        alone. A namespace that it names stays.
        """
        found = corrected(body)
        fix(found, self.stack)
        namespace = found["metadata"].get("namespace") or self.namespaces[0]
        found["metadata"]["namespace"] = namespace
        if found["kind"] == "CronJob":
            of_jobs = mapping(found, "spec", "jobTemplate")
            if not isinstance(of_jobs.get("metadata"), dict | None):
                return found  # Malformed, which the API server says.
            job = {"apiVersion": "batch/v1", "kind": "Job", **of_jobs}
            job["metadata"] = {**(job.get("metadata") or {}), "namespace": namespace}
            self._fill(job)
            del job["metadata"]["namespace"]
            if of_jobs:
                found["spec"]["jobTemplate"] = {
                    key: job[key] for key in job if key not in ("apiVersion", "kind")
                }
        else:
            self._fill(found)
        return found

    def _fill(self, body: Json) -> None:
        labels, queues = mapping(body, "metadata", "labels"), self.space.queues
        is_one = len(queues) == 1 and not self.tree.kai and names.QUEUE_LABEL in labels
        if is_one and isinstance(labels, dict):
            labels[names.QUEUE_LABEL] = queues[0].name
        verdict = self._default(body)
        for operation in verdict.operations if isinstance(verdict, Patch) else ():
            apply(body, operation)

    def _default(self, body: Json) -> Verdict:
        kind = body["kind"].lower()
        if f"/default-{kind}" not in {each.path for each in self._defaults.listed()}:
            return Allow()
        try:
            return self._defaults.review(kind, _review(body, Object))
        except msgspec.MsgspecError as error:
            return Deny(f"{body['kind']} cannot be read: {error}")
        except TypeError:
            return Allow()  # Malformed: in the cluster, too, it passes where this webhook fails.

    def _rights(self, body: Json, group: str, resource: str) -> Iterator[Finding]:
        named = body["metadata"].get("namespace") or self.namespaces[0]
        if named not in self.namespaces:
            theirs = " or ".join(self.namespaces)
            message = f"metadata.namespace is {named}, and work of team {self.team} is in {theirs}"
            yield Finding(Level.REFUSED, NAMESPACE, f"{message}; remove it, or write {theirs}")
        may = {
            each
            for rule in self._rules
            if group in rule["apiGroups"] and "create" in rule["verbs"]
            for each in rule["resources"]
        }
        if resource not in may:
            kinds = ", ".join(
                each for rule in self._rules if "create" in rule["verbs"] for each in rule["resources"]
            )
            # Kinds of other programs have a domain of their own.
            is_other = "." in group and not group.endswith("k8s.io")
            instead = _INSTEAD.get(resource) or (_OTHERS if is_other else None)
            kind = {each.resource: each for each in FOR_MEMBERS}.get(resource)
            if kind is not None and kind.group != group:
                resource = f"{resource} of {group}"
            elif kind is not None:
                served = ", ".join((*self.stack.work, kind.family))
                other = "write a RayJob" if kind.family is Work.JOB else instead or _TRAINING
                instead = f"ask the platform team for `muster:work: [{served}]`, or {other}"
            message = f"members of a team may not create {resource}; " + (f"{instead}; " if instead else "")
            yield Finding(Level.REFUSED, ROLE, f"{message}they may create: {kinds}")

    def _variables(self, body: Json, group: str, version: str, resource: str) -> Json:
        groups = ["system:authenticated"]
        namespace = body["metadata"]["namespace"]
        return {
            "object": body,
            "oldObject": None,
            "namespaceObject": self._namespace_objects[namespace],
            "authorizer": {},
            "request": {
                "kind": {"group": group, "version": version, "kind": body["kind"]},
                "resource": {"group": group, "version": version, "resource": resource},
                "name": body["metadata"].get("name", ""),
                "namespace": namespace,
                "operation": "CREATE",
                "dryRun": False,
                "userInfo": {"username": f"a member of {self.team}", "groups": groups},
            },
        }

    def _figures(self, body: Json, kind: str) -> Iterator[Finding]:
        listed = {each.path: each for each in self._reviews.listed()}
        webhook: Any = listed.get(f"/validate-{kind}")
        if webhook is None:
            return
        try:
            verdict = webhook.review(_review(body, webhook.type))
        except msgspec.MsgspecError as error:
            yield Finding(Level.REFUSED, FIGURES, f"{body['kind']} cannot be read: {error}")
            return
        if isinstance(verdict, Deny):
            yield Finding(Level.REFUSED, FIGURES, verdict.message)


def complete(body: Json) -> None:
    """Set what the API server and KubeRay's definitions set by themselves."""
    if body["kind"] == "Secret" and isinstance(written := body.pop("stringData", None), dict):
        encoded = {key: b64encode(str(value).encode()).decode() for key, value in written.items()}
        body["data"] = {**(body.get("data") or {}), **encoded}
    metadata = body["metadata"]
    if metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = f"{metadata['generateName']}{_GENERATED}"
    spec = body.get("spec")
    # pkg/apis/batch/v1/defaults.go of Kubernetes 1.37.2, read 2026-11-29
    of_pods = mapping(body, "spec", "template", "metadata", "labels") if body["kind"] == "Job" else {}
    if of_pods and not metadata.get("labels"):
        metadata["labels"] = dict(of_pods)
    if not isinstance(spec, dict) or not body["apiVersion"].startswith("ray.io/"):
        return
    if body["kind"] == "RayJob":
        _default(spec, _OF_A_JOB)
    cluster = BY_KIND[body["kind"]].ray_cluster(body) if body["kind"] in BY_KIND else None
    groups = (cluster or {}).get("workerGroupSpecs")
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict):
            _default(group, _OF_A_GROUP)


def _default(of: Json, values: Json) -> None:
    for key, value in values.items():
        if of.get(key) is None:
            of[key] = value


def apply(body: Json, operation: Json) -> str:
    """Make one `add` of a JSON patch. Returns its path as people write it."""
    parts = [each.replace("~1", "/").replace("~0", "~") for each in operation["path"][1:].split("/")]
    at: Any = body
    for part in parts[:-1]:
        at = at[int(part)] if isinstance(at, list) else at[part]
    value = json.loads(json.dumps(operation["value"]))  # Without the types of our own words.
    if isinstance(at, list):
        at.append(value)
    else:
        at[parts[-1]] = value
    return _field_path(parts)


def _field_path(parts: list[str]) -> str:
    found = ""
    for part in parts:
        if part == "-" or part.isdigit():
            found += f"[{part if part != '-' else ''}]"
        elif "/" in part or "." in part:
            found += f"[{part}]"
        else:
            found += f".{part}"
    return found.removeprefix(".")


def _review(body: Json, kind: type[Any]) -> Review[Any]:
    raw = msgspec.Raw(json.dumps(body).encode())
    asked = Request(uid="check", operation="CREATE", namespace=body["metadata"]["namespace"], object=raw)
    return question(asked, kind)


def _namespace_objects(stack: Stack) -> dict[str, Json]:
    return {
        each["metadata"]["name"]: each
        for teams in queues.by_department(stack).values()
        for objects in teams.values()
        for each in objects
        if each["kind"] == "Namespace"
    }
