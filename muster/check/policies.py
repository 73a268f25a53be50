"""ValidatingAdmissionPolicies, evaluated as the API server does, for a tenant of a team's namespace.

CEL is Google's own runtime (cel-expr-python), with the functions of Kubernetes that our policies call. A
tenant has rights in its namespace alone, so every question to `authorizer` is answered with no.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from muster.model.quantities import parse_signed_quantity

Json = dict[str, Any]

# The API server says which expression failed, which tells an author of work nothing.
_UNREADABLE: Final = (
    "the policy cannot read a field, and refuses what it cannot read; compare the fields with those that "
    "`kubectl explain` lists for the kind"
)
_VARIABLES: Final = ("object", "oldObject", "request", "namespaceObject", "authorizer", "variables")


class Level(StrEnum):
    """What the API server does with a finding."""

    REFUSED = "refused"
    WARNED = "warned"


@dataclass(frozen=True, slots=True)
class Finding:
    """`by`: the policy, webhook or role that gives the answer."""

    level: Level
    by: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request as policies see it: the variables of the API server but for `variables`."""

    group: str
    version: str
    resource: str
    operation: str
    variables: Mapping[str, Any]


class Policies:
    """The policies of a stack with their bindings, in force in the namespaces of teams."""

    def __init__(self, manifests: Iterable[Json]) -> None:
        listed = list(manifests)
        self._specs = {
            each["metadata"]["name"]: each["spec"]
            for each in listed
            if each["kind"] == "ValidatingAdmissionPolicy"
        }
        self._bindings = [
            each["spec"] for each in listed if each["kind"] == "ValidatingAdmissionPolicyBinding"
        ]
        self._cel = _Cel()

    def judge(self, question: Question, *, is_malformed: bool = False) -> tuple[Finding, ...]:
        """What every policy finds, not only the first. Of an object that the API server does not take, only
        what can be read.
        """
        return tuple(
            Finding(Level.REFUSED if "Deny" in binding["validationActions"] else Level.WARNED, name, message)
            for binding in self._bindings
            if _is_of(self._specs[name := binding["policyName"]], question)
            for message in self._messages(self._specs[name], question, is_malformed=is_malformed)
        )

    def _messages(self, spec: Json, question: Question, *, is_malformed: bool) -> Iterator[str]:
        known = {**question.variables, "variables": {}}
        try:
            if not all(
                self._cel.value(each["expression"], known) for each in spec.get("matchConditions", ())
            ):
                return
        except CelError:
            yield from () if is_malformed else (_UNREADABLE,)
            return
        self._compute(spec, known)
        for validation in spec["validations"]:
            try:
                if self._cel.value(validation["expression"], known) is not True:
                    message = self._message(validation, known)
                    yield from [message or _UNREADABLE] if message or not is_malformed else ()
            except CelError:
                yield from () if is_malformed else (_UNREADABLE,)

    def _compute(self, spec: Json, known: Json) -> None:
        """Variables, each from those before it. The API server computes one when it is used, so that an error
        in another has no effect.
        """
        for each in spec.get("variables", ()):
            try:
                known["variables"][each["name"]] = self._cel.value(each["expression"], known)
            except CelError:
                continue

    def _message(self, validation: Json, known: Json) -> str:
        """Empty where it cannot be computed."""
        expression = validation.get("messageExpression")
        try:
            found = self._cel.value(expression, known) if expression else None
        except CelError:
            found = None
        return str(found or validation.get("message") or "")


class CelError(Exception):
    """An expression has no value."""


class _Cel:
    """Compiled expressions by their text; many policies share some."""

    def __init__(self) -> None:
        extensions = [ext_optional.ExtOptional(), ext_strings.ExtStrings(), _kubernetes()]
        declared = dict.fromkeys(_VARIABLES, cel.Type.DYN)
        self._environment = cel.NewEnv(variables=declared, extensions=extensions)
        self._compiled: dict[str, Any] = {}

    def value(self, expression: str, known: Mapping[str, Any]) -> Any:
        try:
            program = self._compiled.get(expression)
            if program is None:
                program = self._compiled[expression] = self._environment.compile(expression)
            result = program.eval(data=dict(known))
        except Exception as error:
            raise CelError(str(error)) from error
        if result.type() == cel.Type.ERROR:
            raise CelError(str(result.plain_value()))
        return result.plain_value()


def _kubernetes() -> Any:
    """The functions of Kubernetes' own libraries that policies of Muster call."""
    dyn, string, boolean = cel.Type.DYN, cel.Type.STRING, cel.Type.BOOL

    def declared(name: str, returns: Any, parameters: list[Any], function: Any) -> Any:
        overload = cel.Overload(f"kubernetes_{name}", returns, [*parameters], is_member=True, impl=function)
        return cel.FunctionDecl(name, [overload])

    def asked(_: object, __: object) -> dict[str, object]:
        return {}

    quantity = cel.Overload("kubernetes_quantity", dyn, [string], is_member=False, impl=_quantity)
    functions = [declared("find", string, [string, string], _find), declared("sum", dyn, [dyn], sum)]
    functions.append(declared("min", dyn, [dyn], min))
    functions.append(declared("asApproximateFloat", cel.Type.DOUBLE, [dyn], float))
    functions.append(cel.FunctionDecl("quantity", [quantity]))
    functions += [
        declared(name, dyn, [dyn, dyn], asked)
        for name in ("group", "resource", "subresource", "namespace", "check")
    ]
    functions.append(declared("allowed", boolean, [dyn], lambda _: False))
    return cel.CelExtension("kubernetes", functions)


def _quantity(text: str) -> float:
    """The policies read no more of one than its approximate value."""
    return float(parse_signed_quantity(text))


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


def _is_of(spec: Json, question: Question) -> bool:
    return any(
        question.group in rule["apiGroups"]
        and question.operation in rule["operations"]
        and question.resource in rule["resources"]
        for rule in spec["matchConstraints"]["resourceRules"]
    )
