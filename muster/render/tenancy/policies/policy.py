"""The shape of a ValidatingAdmissionPolicy and of its binding, and how the files of this folder become one.

All policies apply in the namespaces of teams, fail closed, and name what to do instead. The API server
evaluates them, so that no process of ours has to run. Each reads a team's settings from the annotations of
its Namespace, so there are as many policies for a thousand teams as for one.

A policy is a YAML file here, NAME.yaml, and `shared.yaml` has what several of them use. A file has the fields
of a ValidatingAdmissionPolicy's spec under their own names: resourceRules, matchConditions, variables,
validations. `Policy` adds what all policies have alike. Beside them:

    name         the name of the policy, where it is not the file's
    purpose      why the policy is there, for docs/reference/admission.md
    everywhere   true for one that is in force outside of team namespaces as well
    expressions  CEL by name, for ${name} in any expression; it stands there in parentheses
    texts        the same for parts of messages, which stand there as they are
    lists        items by name, for `- include: NAME` in a list. Further keys of such an item are placeholders
                 of the list: `{include: work, when: Before, of: oldObject}`

`if: NAME` on an item leaves it out of stacks for which Python says no. Placeholders that Python fills are
values of the stack, and `${names.X}` is a constant of muster/model/names.py. A list of strings becomes one of
CEL. A name without a value is an error, and so is a value that the file does not use.

What the table of kinds of work says is filled in as CEL: where each kind has its Ray cluster and its pod
templates, where it is stopped, and how many pods it has. Those texts have the placeholders `${of}`, an object
in its new or old state, and `${when}`, the suffix of the variables of that state.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, cast

from muster import bounded_yaml
from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.model.tenancy import TenancyMode
from muster.model.work import (
    BROUGHT,
    BY_KIND,
    GROUPED,
    RAY,
    SUSPEND,
    WORK,
    Path,
    WorkKind,
    by_group,
    pod_of_runtime,
)
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
    """Whether a controller makes it for an object of one of these kinds. The workers of a LeaderWorkerSet are
    a StatefulSet of their leader's pod.
    """
    kinds = tuple(kinds)
    is_owner = f"owner.apiVersion.startsWith('{group}/') && owner.kind in {quoted([x.kind for x in kinds])}"
    if BY_KIND["LeaderWorkerSet"] in kinds:
        is_owner = f"(({is_owner}) || owner.kind == 'Pod')"
    return (
        f"({_is_controller(accounts)} && object.metadata.?ownerReferences.orValue([]).exists(owner, "
        f"owner.?controller.orValue(false) && {is_owner}))"
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


# What makes pods outside of every queue. No member may write it, and the role `edit` may.
_UNQUEUED: Final = ("deployments", "statefulsets", "daemonsets", "replicasets")
_OF: Final = "${of}"


def makers_of_pods(stack: Stack) -> tuple[Kinds, ...]:
    """Work, and what makes pods outside of every queue."""
    work = stack.judged_work
    queued = {each.resource for each in work}
    return (
        *kinds_of(work),
        Kinds(group="apps", resources=tuple(each for each in _UNQUEUED if each not in queued)),
        Kinds(group="", resources=("replicationcontrollers",)),
    )


def optional(of: str, path: str) -> str:
    return of + "".join(f".?{key}" for key in path.split("."))


def values_at(paths: Iterable[Path]) -> str:
    """The values at paths of any kind of work, as a list."""
    listed = list(dict.fromkeys(paths))
    alone = ",\n".join(optional(_OF, path.text) for path in listed if not path.groups)
    grouped = (
        f" +\n{_groups_at(path)}.map(group, {optional('group.of', path.rest)})"
        for path in listed
        if path.groups
    )
    return f"([{alone}]{''.join(grouped)}).filter(each, each.hasValue()).map(each, each.value())"


def is_suspended(of: str) -> str:
    """Whether work is stopped, which each kind says at its own path."""
    chosen = (
        f"request.resource.resource in {[each.resource for each in WORK if each.suspend == path]} ? "
        f"{optional(of, path)} :\n"
        for path in dict.fromkeys(each.suspend for each in WORK)
        if path != SUSPEND
    )
    return f"({''.join(chosen)}{optional(of, SUSPEND)}).orValue(false)"


def too_many(most: int) -> str:
    """Whether work of no Ray cluster has more pods at a time than `most`."""
    found = list[str]()
    for pods in dict.fromkeys(pods for work in WORK for pods in work.pods if pods.factors):
        groups = _groups_at(pods.template) if pods.template.groups else f"[{{'of': {_OF}}}]"
        counts = [f"{optional('group.of', each)}.orValue(1)" for each in pods.factors]
        found.append(f"{groups}.exists(group, {' || '.join(f'{each} > {most}' for each in counts)})")
        if pods.template.groups or len(counts) > 1:
            found.append(f"{groups}.map(group, {' * '.join(counts)}).sum() > {most}")
    return " ||\n".join(found)


def _parts_at(work: Iterable[WorkKind]) -> str:
    """The templates of these kinds with their paths, as a list."""
    paths = dict.fromkeys((pods.template, pods.is_of_runtime) for kind in work for pods in kind.pods)
    return " +\n".join(
        _grouped_parts(path) if path.groups else _part(path.text, _of_runtime(path.text) if other else "")
        for path, other in paths
    )


def _of_runtime(path: str) -> str:
    """The template of a TrainJob's pods, of which each part has any type."""
    at = f"{_OF}.{path}"
    env, resources = f"{at}.?env.orValue([])", f"{at}.?resourcesPerNode.orValue(dyn({{}}))"
    return _literal({"spec": pod_of_runtime(env=env, resources=resources)})


def _literal(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ",\n  ".join(f"'{key}': dyn({_literal(each)})" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(f"dyn({_literal(each)})" for each in value) + "]"
    text = str(value)
    return text.lower() if isinstance(value, bool) else text if text.startswith(_OF) else f"'{text}'"


def _part(path: str, template: str = "") -> str:
    part = f"[{{'path': dyn('{path}'), 'template': dyn({template or f'{_OF}.{path}'})}}]"
    return f"({optional(_OF, path)}.hasValue() ? {part} : [])"


def _grouped_parts(path: Path) -> str:
    name = f"'{path.groups} of ' + group.name + ': " if path.field else f"'{path.groups}.' + group.name + '."
    return (
        f"{_groups_at(path)}.filter(group, {optional('group.of', path.rest)}.hasValue())\n"
        f"  .map(group, {{'path': dyn({name}{path.rest}'), 'template': dyn(group.of.{path.rest})}})"
    )


def _groups_at(path: Path) -> str:
    """The items of the variable `groups` that are at this path."""
    return f"variables.groups${{when}}.filter(group, group.at == '{path.groups}')"


def _groups() -> str:
    """What has pods in several groups, with the path `at` and the `name` of each; none of any other kind."""
    groups = list[str]()
    for path in dict.fromkeys(pods.template for work in GROUPED for pods in work.pods):
        at = optional(_OF, path.groups)
        if path.field:
            found, name, group = f"{at}.orValue([])", f"each.?{path.field}.orValue('')", "each"
        else:
            values = f"{at}.orValue(dyn({{}}))"
            found, name = f"{list(path.keys)}.filter(each, each in {values})", "each"
            group = f"{values}[each]"
        item = f"{{'at': dyn('{path.groups}'), 'name': dyn({name}), 'of': dyn({group})}}"
        groups.append(f"{found}.map(each, {item})")
    grouped = f"request.resource.resource in {[each.resource for each in GROUPED]}"
    return f"{grouped} ? " + " +\n".join(groups) + " : []"


_CLUSTERS: Final = ", ".join(f"'{each.resource}': '{each.cluster}'" for each in WORK if each.cluster)
MODEL: Final = {
    # Where each of Ray's kinds has its cluster.
    "clusterPaths": f"{{{_CLUSTERS}}}[?request.resource.resource].orValue('')",
    "groups": _groups(),
    "partsOfRay": _parts_at(work for work in WORK if work.is_ray),
    # Deployments and others have theirs where a Job has its own.
    "partsOfOthers": _parts_at(work for work in WORK if not work.is_ray),
}
"""For every file."""


Value = str | int | Sequence[str]
_Items = Sequence[Mapping[str, Any]]
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})

_PLACEHOLDER: Final = re.compile(r"\$\{([\w.]+)\}")
_SHARED: Final = "shared"
_SHORT: Final = 60
_COMMON: Final = {
    **MODEL,
    **{
        name: text.replace(" || ", " ||\n")
        for name, text in (("system", SYSTEM), ("madeForWork", MADE_FOR_WORK))
    },
}
_OWN_KEYS: Final = ("include", "if")


def policy(
    name: str,
    *,
    values: Mapping[str, Value] = _NONE,
    given: Mapping[str, bool] = _NONE,
    kinds: Mapping[str, Sequence[Kinds]] = _NONE,
    lists: Mapping[str, _Items] = _NONE,
    scheduler: Scheduler | None = None,
) -> Policy:
    """The policy of a file. `values` fill its placeholders, `given` says which of its `if` hold, `kinds` and
    `lists` are what resourceRules and items name that follows from the model. `scheduler`: whose own
    placeholders, under `schedulers` of the file, and `if` hold.
    """
    source = _read(name)
    filled = _Filled(name=name, values=values, given=given, lists=lists, scheduler=scheduler)
    found = Policy(
        name=source.get("name", name),
        purpose=source["purpose"].strip(),
        kinds=tuple(_kinds(source["resourceRules"], kinds)),
        conditions=tuple(_named(filled.items(source.get("matchConditions", ())))),
        words=tuple(_named(filled.items(source.get("variables", ())))),
        rules=tuple(
            Rule(holds=each["expression"], message=each["messageExpression"])
            for each in filled.items(source["validations"])
        ),
        everywhere=source.get("everywhere", False),
    )
    filled.check(kinds.keys() - {rule for rule in source["resourceRules"] if isinstance(rule, str)})
    return found


def shared(name: str, values: Mapping[str, Value] = _NONE) -> str:
    """An expression of `shared.yaml`, filled."""
    return _Filled(name=_SHARED, values=values).text(f"${{{name}}}", {})


@cache
def _read(name: str) -> dict[str, Any]:
    text = (files(__package__) / f"{name}.yaml").read_text(encoding="utf-8")
    (found,) = bounded_yaml.load_all(text)
    return cast(dict[str, Any], found)


def _kinds(rules: Sequence[Any], given: Mapping[str, Sequence[Kinds]]) -> Iterator[Kinds]:
    for rule in rules:
        if isinstance(rule, str):
            yield from given[rule]
            continue
        (group,) = rule["apiGroups"]
        yield Kinds(group=group, resources=tuple(rule["resources"]), operations=tuple(rule["operations"]))


def _named(items: Iterator[dict[str, str]]) -> Iterator[tuple[str, str]]:
    return ((each["name"], each["expression"]) for each in items)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filled:
    """The items of a file with their placeholders filled."""

    name: str
    values: Mapping[str, Value]
    given: Mapping[str, bool] = field(default_factory=dict)
    lists: Mapping[str, _Items] = field(default_factory=dict)
    scheduler: Scheduler | None = None
    used: set[str] = field(default_factory=set)

    def items(self, items: _Items, own: Mapping[str, str] = _NONE) -> Iterator[dict[str, str]]:
        """`own`: placeholders of the list that these items are in."""
        for item in items:
            self.used.add(item.get("include", ""))
            if "if" in item and not self._holds(item["if"]):
                continue
            if "include" not in item:
                yield {key: self.text(text, own) for key, text in item.items() if key != "if"}
                continue
            further = {key: self.text(text, own) for key, text in item.items() if key not in _OWN_KEYS}
            yield from self.items(self._listed(item["include"]), further)

    def text(self, text: str, own: Mapping[str, str]) -> str:
        def value(found: re.Match[str]) -> str:
            # A value of several lines is indented as the line in which it is.
            line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
            indent = " " * (len(line) - len(line.lstrip()))
            return self._value(found[1], own).replace("\n", f"\n{indent}")

        return _PLACEHOLDER.sub(value, text)

    def _value(self, name: str, own: Mapping[str, str]) -> str:
        if name in own:
            return own[name]
        if name in self.values:
            self.used.add(name)
            return self.text(_text(self.values[name]), own)
        if name in _COMMON:
            return self.text(_COMMON[name], own)
        if name.startswith("names."):
            return _text(getattr(names, name.removeprefix("names.")))
        for source in (_read(self.name), _read(_SHARED)):
            if (text := source.get("schedulers", {}).get(self.scheduler, {}).get(name)) is not None:
                return self.text(text, own)
            if (text := source.get("texts", {}).get(name)) is not None:
                return self.text(text, own)
            if (text := source.get("expressions", {}).get(name)) is not None:
                return _in_parentheses(self.text(text, own))
        raise KeyError(f"{self.name}.yaml: ${{{name}}} has no value")

    def _holds(self, name: str) -> bool:
        self.used.add(name)
        if self.scheduler is not None and name in {*Scheduler}:
            return name == self.scheduler
        return self.given[name]

    def _listed(self, name: str) -> _Items:
        if name in self.lists:
            self.used.add(name)
            return self.lists[name]
        for source in (_read(self.name), _read(_SHARED)):
            if name in source.get("lists", {}):
                found: _Items = source["lists"][name]
                return found
        raise KeyError(f"{self.name}.yaml: there is no list {name}")

    def check(self, kinds: Set[str]) -> None:
        """`kinds`: those that the file does not name."""
        if unused := {*self.values, *self.given, *self.lists} - self.used | kinds:
            raise ValueError(f"{self.name}.yaml does not use {', '.join(sorted(unused))}")


def _in_parentheses(text: str) -> str:
    """On lines of its own where it is long."""
    if len(text) <= _SHORT:
        return f"({text})"
    indented = text.replace("\n", "\n  ")
    return f"(\n  {indented}\n)"


def _text(value: Value) -> str:
    return str(value) if isinstance(value, str | int) else quoted(value)
