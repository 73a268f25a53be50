"""The shape of a ValidatingAdmissionPolicy and of its binding.

All policies apply in the namespaces of teams, fail closed, and name what to do instead. The API server
evaluates them, so that no process of ours has to run. Each reads a team's settings from the annotations of
its Namespace, so there are as many policies for a thousand teams as for one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.model import names
from muster.model.tenancy import TenancyMode
from muster.model.work import WorkKind, by_group
from muster.render.manifest import Manifest, manifest

_API: Final = "admissionregistration.k8s.io/v1"
_ACTIONS: Final = {TenancyMode.ENFORCE: ["Deny"], TenancyMode.WARN: ["Warn", "Audit"]}

Operation = str
_WRITES: Final = ("CREATE", "UPDATE")

METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")
"""What clients write of an object's metadata. A patch that changes nothing is none, and the API server writes
managedFields by itself.
"""


def same_metadata(now: str, before: str, *, free: str = "") -> str:
    """Whether both have `METADATA` alike, but for annotations of which `free` holds, CEL about `key`."""
    fields = [field for field in METADATA if not free or field != "annotations"]
    alike = [f"{now}.metadata.?{field} == {before}.metadata.?{field}" for field in fields]
    rest = [same_but(annotations_of(now), annotations_of(before), free=free)] if free else []
    return " && ".join((*alike, *rest))


def same_but(now: str, before: str, *, free: str) -> str:
    """Whether two maps are alike but for the keys of which `free` holds, CEL about `key`."""
    one = "{a}.all(key, {free} || (key in {b} && {a}[key] == {b}[key]))"
    return f"{one.format(a=now, b=before, free=free)} && {one.format(a=before, b=now, free=free)}"


def annotations_of(of: str) -> str:
    return f"{of}.metadata.?annotations.orValue(dyn({{}}))"


def fault(condition: str, message: str) -> str:
    """A CEL list of no or one sentence."""
    return f"({condition} ? [{message}] : [])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """Resources of one API group, `*/status` and the like included only where they are named."""

    group: str
    resources: tuple[str, ...]
    operations: tuple[Operation, ...] = _WRITES

    def rule(self) -> dict[str, Any]:
        return {
            "apiGroups": [self.group],
            "apiVersions": ["*"],
            "operations": list(self.operations),
            "resources": list(self.resources),
            "scope": "*",
        }


def kinds_of(
    work: Iterable[WorkKind], *, operations: tuple[Operation, ...] = _WRITES, part: str = ""
) -> tuple[Kinds, ...]:
    """Kinds of work, by API group. `part`: a subresource of each in its place, such as `/status`."""
    return tuple(
        Kinds(group=group, resources=tuple(f"{each}{part}" for each in resources), operations=operations)
        for group, resources in by_group(work).items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`holds` must be true; `message` is a CEL string for the refusal, with what to do instead."""

    holds: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """`purpose`: why it is there, for docs/reference/admission.md. `unless` are conditions under which the
    policy does not apply; `words` are CEL variables, each of which may use those before it. `everywhere`:
    also outside of team namespaces.
    """

    name: str
    purpose: str
    kinds: tuple[Kinds, ...]
    rules: tuple[Rule, ...]
    words: Sequence[tuple[str, str]] = ()
    unless: Sequence[tuple[str, str]] = ()
    everywhere: bool = False

    def manifests(self, mode: TenancyMode) -> list[Manifest]:
        """The policy and the binding that puts it in force."""
        binding = {"policyName": self.name, "validationActions": list(_ACTIONS[mode])}
        return [
            manifest(_API, "ValidatingAdmissionPolicy", self.name, spec=self._spec()),
            manifest(_API, "ValidatingAdmissionPolicyBinding", self.name, spec=binding),
        ]

    def _spec(self) -> Manifest:
        teams = {"matchExpressions": [{"key": names.TEAM_LABEL, "operator": "Exists"}]}
        return {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {} if self.everywhere else teams,
                "objectSelector": {},
                "resourceRules": [kinds.rule() for kinds in self.kinds],
            },
            "matchConditions": [
                {"name": name, "expression": f"!({condition})"} for name, condition in self.unless
            ],
            "variables": [{"name": name, "expression": expression} for name, expression in self.words],
            "validations": [
                {"expression": rule.holds, "messageExpression": rule.message, "reason": "Forbidden"}
                for rule in self.rules
            ],
        }
