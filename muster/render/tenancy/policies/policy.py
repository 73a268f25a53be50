"""The shape of a ValidatingAdmissionPolicy and of its binding.

All policies apply in the namespaces of teams, fail closed, and name what to do instead. The API server
evaluates them, so that no process of ours has to run. Each reads a team's settings from the annotations of
its Namespace, so there are as many policies for a thousand teams as for one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.model import names
from muster.model.tenancy import TenancyMode
from muster.model.work import BROUGHT, RAY, WorkKind, by_group
from muster.render.manifest import Manifest, manifest

# The user of a request, in CEL: the cluster's own controllers, an administrator, or else a tenant.

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
# The kubelets, of which each may write only what runs on its own node (the Node authorizer sees to that).
NODES: Final = "request.userInfo.groups.exists(group, group == 'system:nodes')"
KUBERAY: Final = accounts_of(names.RAY_NAMESPACE)
OURS: Final = accounts_of(names.SYSTEM_NAMESPACE)
MANAGER: Final = (
    f"request.userInfo.username == 'system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.MANAGER}'"
)
RECORDER: Final = (
    f"request.userInfo.username == 'system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.RECORDER}'"
)

# A user who may write every Namespace of the cluster could change what these policies read, so they do not
# apply to such users. A right on one namespace does not count. The program's own identity is one of them.
ADMINISTRATOR: Final = "authorizer.group('').resource('namespaces').check('update').allowed()"

# A user who may do the same in every namespace is not a tenant: a cloud's autoscaler, for example, answers
# ProvisioningRequests everywhere. A tenant's rights end with its namespace.
_EVERYWHERE: Final = (
    "authorizer.group(request.resource.group).resource(request.resource.resource)"
    ".subresource(request.?subResource.orValue('')).check({verb}).allowed()"
)
EVERYWHERE: Final = " || ".join(
    _EVERYWHERE.format(verb=verb)
    for verb in (
        "request.operation == 'CREATE' ? 'create' : request.operation == 'DELETE' ? 'delete' : 'update'",
        # An update is one by whichever verb.
        "request.operation == 'CREATE' ? 'create' : request.operation == 'DELETE' ? 'delete' : 'patch'",
    )
)

# What most policies leave alone. A tenant is none of them.
TRUSTED: Final = (
    ("the-system", SYSTEM),
    ("an-administrator", ADMINISTRATOR),
    ("a-user-of-the-whole-cluster", EVERYWHERE),
)
KUBELETS: Final = ("a-kubelet", NODES)


def owned(of: str, *, by: str, kinds: Sequence[str] = ()) -> str:
    """Whether an object of the API group `by` controls it, of one of these kinds where any are named."""
    named = f" && owner.kind in {quoted(kinds)}" if kinds else ""
    return (
        f"{of}.metadata.?ownerReferences.orValue([]).exists(owner, "
        f"owner.?controller.orValue(false) && owner.apiVersion.startsWith('{by}'){named})"
    )


def owned_by_ray(of: str, *, kinds: Sequence[str] = ()) -> str:
    """Whether KubeRay made it for a Ray object."""
    return owned(of, by="ray.io/", kinds=kinds)


# A RayCluster or submitter Job that KubeRay makes for an object that was checked, or a Job of a JobSet; its
# owner counts.
MADE_FOR_WORK: Final = " || ".join(
    f"({made})"
    for made in (
        f"{KUBERAY} && {owned_by_ray('object', kinds=tuple(each.kind for each in RAY))}",
        *(
            f"{_is_controller(each.controller)} && {owned('object', by=f'{each.group}/', kinds=(each.kind,))}"
            for each in BROUGHT
        ),
    )
)
# KubeRay, which on a cluster that had one may have its account in another namespace.
BY_KUBERAY: Final = f"{KUBERAY} || (request.operation == 'CREATE' && {owned_by_ray('object')})"


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


# What an author has to change is a CEL list of sentences. The API server evaluates each rule twice, for its
# message as well, so what nothing is wrong with has to cost little: one pass over the containers of a pod,
# which asks each question once and writes a sentence only where there is a fault.


def fault(condition: str, message: str) -> str:
    """A CEL list of no or one sentence."""
    return f"({condition} ? [{message}] : [])"


def container_faults(faults: Mapping[str, Iterable[tuple[str, str]]], *, unnamed: str = "autoscaler") -> str:
    """One CEL list for each container of `pod` (pod_templates.pod_of), of the sentences about that container.
    `faults`: conditions on `each` with their sentences in CEL, by the condition under which they are asked
    for at all, such as `has(each.env)`, empty for always.
    """
    name = f"'container ' + each.?name.orValue('{unnamed}') + ': ' + "
    groups = []
    for when, group in faults.items():
        fixes = " + ".join(fault(condition, name + fix) for condition, fix in group)
        groups.append(f"({when} ? {fixes} : [])" if when else fixes)
    return f"pod.containers.map(each, {' + '.join(groups)})"


def no_faults(lists: str) -> str:
    """Whether all of several CEL lists are empty."""
    return f"{lists}.all(some, some.size() == 0)"


def joined(lists: str) -> str:
    """The sentences of several CEL lists, as one text."""
    return f"{lists}.filter(some, some.size() > 0).map(some, some.join('; ')).join('; ')"


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
    conditions: Sequence[tuple[str, str]] = ()
    unless: Sequence[tuple[str, str]] = ()
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
                *({"name": name, "expression": condition} for name, condition in self.conditions),
                *({"name": name, "expression": f"!({condition})"} for name, condition in self.unless),
            ],
            "variables": [{"name": name, "expression": expression} for name, expression in self.words],
            "validations": [
                {"expression": rule.holds, "messageExpression": rule.message, "reason": "Forbidden"}
                for rule in self.rules
            ],
        }
