"""Policies as YAML files: one NAME.yaml each in this folder, and `shared.yaml` with what several of them use.

A file has the fields of a ValidatingAdmissionPolicy's spec under their own names: resourceRules,
matchConditions, variables, validations. `Policy` adds what all policies have alike. Beside them:

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
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, cast

from muster import bounded_yaml
from muster.model import names
from muster.render.tenancy.policies.pod_templates import MODEL
from muster.render.tenancy.policies.policy import MADE_FOR_WORK, SYSTEM, Kinds, Policy, Rule, quoted

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
) -> Policy:
    """The policy of a file. `values` fill its placeholders, `given` says which of its `if` hold, `kinds` and
    `lists` are what resourceRules and items name that follows from the model.
    """
    source = _read(name)
    filled = _Filled(name=name, values=values, given=given, lists=lists)
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
    used: set[str] = field(default_factory=set)

    def items(self, items: _Items, own: Mapping[str, str] = _NONE) -> Iterator[dict[str, str]]:
        """`own`: placeholders of the list that these items are in."""
        for item in items:
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
            if (text := source.get("texts", {}).get(name)) is not None:
                return self.text(text, own)
            if (text := source.get("expressions", {}).get(name)) is not None:
                return _in_parentheses(self.text(text, own))
        raise KeyError(f"{self.name}.yaml: ${{{name}}} has no value")

    def _holds(self, name: str) -> bool:
        self.used.add(name)
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
