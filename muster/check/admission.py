"""Everything that admission does to one new object of a team: fill in, warn, refuse.

The order is the API server's: rights, defaults of the definitions, the mutating webhook, and then the
policies and the reviews of figures, of which all answers are given.
"""

from __future__ import annotations

import copy
import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from muster.check.manifests import Json, resource_of
from muster.check.policies import Finding, Level, Policies, Question
from muster.controller.kube.resource import Object
from muster.controller.kueue.defaults import Defaults
from muster.controller.kueue.webhooks import Reviews
from muster.controller.runtime.review import Allow, Deny, Patch, Request, Review, Verdict, question
from muster.errors import MusterError
from muster.model.gangpolicy import GangPolicy
from muster.model.queuetree import QueueTree, Space
from muster.model.stack import GangMode, Stack
from muster.render import gang, queues, ray, tenancy
from muster.render.queuetree import queue_tree

DEFAULTS: Final = "the webhook that fills in"
FIGURES: Final = "the webhook that compares figures"
ROLE: Final = "the role of the team's members"
NAMESPACE: Final = "the namespace"
# Of KubeRay's definitions: what the API server sets where an author leaves it out, and rules read.
_OF_A_JOB: Final = {"submissionMode": "K8sJobMode"}
_OF_A_GROUP: Final = {"minReplicas": 0, "replicas": 0, "maxReplicas": 2**31 - 1, "numOfHosts": 1}
# As long as what the API server appends.
_GENERATED: Final = "x" * 5
_CLUSTERS: Final = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}


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
    """The admission of one team's namespace in a stack."""

    def __init__(self, stack: Stack, team: str) -> None:
        known = {each.name: each for _, each in stack.teams()}
        if team not in known:
            raise MusterError(
                f"the stack has no team {team!r}.",
                fix=f"name one of: {', '.join(known) or '(there is none)'}.",
            )
        self.stack, self.team, self.namespace = stack, team, known[team].namespace
        self.tree: QueueTree = queue_tree(stack)
        self.space: Space = self.tree.spaces[self.namespace]
        self.policy: GangPolicy = gang.gang_policy(stack)
        self._is_ours = stack.gang_admission.mode is GangMode.MUSTER
        self._defaults = Defaults(lambda: self.tree)
        self._reviews = Reviews(lambda: self.policy, lambda: self.tree)
        self._rules = tenancy.member_role(stack)["rules"]
        self._namespace_object = _namespace_object(stack, self.namespace)
        found = [ray.admission(stack.ray), *tenancy.policies(stack)]
        self._policies = Policies(each for listed in found for each in listed)

    def review(self, body: Json) -> Answer:
        """Answer the creation of an object by a member of the team."""
        group, version, resource = resource_of(body)
        now = copy.deepcopy(body)
        findings = list(self._rights(now, group, resource))
        now["metadata"]["namespace"] = self.namespace
        complete(now)
        if any(each.by == ROLE for each in findings):
            return Answer(object=now, filled=(), findings=tuple(findings))
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
        findings += self._policies.judge(asked)
        findings += self._figures(now, kind) if self._is_ours else ()
        return Answer(object=now, filled=tuple(filled), findings=tuple(findings))

    def fixed(self, body: Json) -> Json:
        """The object with what an author may leave out: its namespace, and all that admission fills in, also
        in the jobs of a CronJob, in which admission fills nothing in.
        """
        found = copy.deepcopy(body)
        found["metadata"]["namespace"] = self.namespace
        of_jobs = found.get("spec", {}).get("jobTemplate") if found["kind"] == "CronJob" else None
        if isinstance(of_jobs, dict):
            job = {"apiVersion": "batch/v1", "kind": "Job", **of_jobs}
            job["metadata"] = {**(job.get("metadata") or {}), "namespace": self.namespace}
            self._fill(job)
            del job["metadata"]["namespace"]
            found["spec"]["jobTemplate"] = {key: job[key] for key in job if key not in ("apiVersion", "kind")}
        else:
            self._fill(found)
        return found

    def _fill(self, body: Json) -> None:
        verdict = self._default(body)
        for operation in verdict.operations if isinstance(verdict, Patch) else ():
            apply(body, operation)

    def _default(self, body: Json) -> Verdict:
        kind = body["kind"].lower()
        if f"/default-{kind}" not in {each.path for each in self._defaults.listed()}:
            return Allow()
        return self._defaults.review(kind, _review(body, Object))

    def _rights(self, body: Json, group: str, resource: str) -> Iterator[Finding]:
        named = body["metadata"].get("namespace", self.namespace)
        if named != self.namespace:
            message = f"metadata.namespace is {named}, and work of team {self.team} is in {self.namespace}"
            yield Finding(Level.REFUSED, NAMESPACE, f"{message}; remove it, or write {self.namespace}")
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
            yield Finding(
                Level.REFUSED, ROLE, f"members of a team may not create {resource}; they may create: {kinds}"
            )

    def _variables(self, body: Json, group: str, version: str, resource: str) -> Json:
        groups = ["system:authenticated"]
        return {
            "object": body,
            "oldObject": None,
            "namespaceObject": self._namespace_object,
            "authorizer": {},
            "request": {
                "kind": {"group": group, "version": version, "kind": body["kind"]},
                "resource": {"group": group, "version": version, "resource": resource},
                "name": body["metadata"].get("name", ""),
                "namespace": self.namespace,
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
    if not isinstance(spec, dict) or not body["apiVersion"].startswith("ray.io/"):
        return
    if body["kind"] == "RayJob":
        _default(spec, _OF_A_JOB)
    cluster = spec.get(_CLUSTERS[body["kind"]]) if body["kind"] in _CLUSTERS else spec
    groups = cluster.get("workerGroupSpecs") if isinstance(cluster, dict) else None
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
    return _written(parts)


def _written(parts: list[str]) -> str:
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


def _namespace_object(stack: Stack, name: str) -> Json:
    for teams in queues.by_department(stack).values():
        for objects in teams.values():
            for each in objects:
                if each["kind"] == "Namespace" and each["metadata"]["name"] == name:
                    return each
    raise AssertionError(f"no Namespace {name} is rendered")
