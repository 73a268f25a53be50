"""The shape of a ValidatingAdmissionPolicy and of its binding.

All policies apply in the namespaces of teams, fail closed, and name what to do instead. The API server
evaluates them, so that no process of ours has to run. Each reads a team's settings from the annotations of
its Namespace, so there are as many policies for a thousand teams as for one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.model import names
from muster.model.tenancy import TenancyMode
from muster.model.work import BROUGHT, RAY, WorkKind, by_group
from muster.render.manifest import Manifest, manifest

# The cluster's own controllers, in CEL. Other users of a request are in shared.yaml.

# Kueue, KubeRay, KAI, Muster's controller, and those of the cluster have their accounts in these namespaces,
# in which tenants have no rights.
_SYSTEM: Final = (
    "kube-system",
    names.KUEUE_NAMESPACE,
    names.RAY_NAMESPACE,
    names.KAI_NAMESPACE,
    names.SYSTEM_NAMESPACE,
)


def quoted(words: Sequence[str]) -> str:
    """A CEL list of strings. They come from the stack, whose rules allow only plain names."""
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


def accounts_of(*namespaces: str) -> str:
    """Whether the request comes from a ServiceAccount of one of these namespaces."""
    groups = quoted([f"system:serviceaccounts:{namespace}" for namespace in namespaces])
    return f"request.userInfo.groups.exists(group, group in {groups})"


def _is_controller(accounts: str) -> str:
    """Whether the request comes from a NAMESPACE's or from one NAMESPACE:ACCOUNT."""
    if ":" in accounts:
        return f"request.userInfo.username == 'system:serviceaccount:{accounts}'"
    return accounts_of(accounts)


_ACCOUNTS: Final = (accounts_of(*_SYSTEM), *(_is_controller(each.controller) for each in BROUGHT))
SYSTEM: Final = f"({' || '.join(_ACCOUNTS)})"


def _is_made_by(accounts: str, kinds: Iterable[WorkKind], *, group: str) -> str:
    """Whether a controller makes it for an object of one of these kinds."""
    return (
        f"({_is_controller(accounts)} && object.metadata.?ownerReferences.orValue([]).exists(owner, "
        f"owner.?controller.orValue(false) && owner.apiVersion.startsWith('{group}/') && "
        f"owner.kind in {quoted([each.kind for each in kinds])}))"
    )


# A RayCluster or submitter Job that KubeRay makes for an object that was checked, or a Job of a JobSet; its
# owner counts.
MADE_FOR_WORK: Final = " || ".join(
    (
        _is_made_by(names.RAY_NAMESPACE, RAY, group="ray.io"),
        *(_is_made_by(each.controller, (each,), group=each.group) for each in BROUGHT),
    )
)


_API: Final = "admissionregistration.k8s.io/v1"
_ACTIONS: Final = {TenancyMode.ENFORCE: ["Deny"], TenancyMode.WARN: ["Warn", "Audit"]}

Operation = str
_WRITES: Final = ("CREATE", "UPDATE")


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

    def validation(self) -> dict[str, str]:
        return {"expression": self.holds, "messageExpression": self.message, "reason": "Forbidden"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """`purpose`: why it is there, for docs/reference/admission.md. `conditions` have to hold for the policy
    to apply; `words` are CEL variables, each of which may use those before it. `everywhere`: also outside of
    team namespaces.
    """

    name: str
    purpose: str
    kinds: tuple[Kinds, ...]
    rules: tuple[Rule, ...]
    words: Sequence[tuple[str, str]] = ()
    conditions: Sequence[tuple[str, str]] = ()
    everywhere: bool = False

    def __post_init__(self) -> None:
        """The API server takes no policy with a variable of a name twice."""
        twice = sorted(name for name, count in Counter(name for name, _ in self.words).items() if count > 1)
        if twice:
            raise ValueError(f"policy {self.name} has two variables of one name: {', '.join(twice)}")

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
                {"name": name, "expression": condition} for name, condition in self.conditions
            ],
            "variables": [{"name": name, "expression": expression} for name, expression in self.words],
            "validations": [rule.validation() for rule in self.rules],
        }
