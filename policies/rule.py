"""One policy, and its registration with the engine.

Responsible for the description of a policy: what it enforces, the severity of a violation, the remedy and a
link. Its judge is a pure function, so that it is tested without an engine.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    ReportViolation,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)

from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.policies.registered import Registered, read


@dataclass(frozen=True, slots=True)
class Finding:
    """A breach. `urn` is the resource at fault, None for the stack as a whole."""

    message: str
    urn: str | None = None


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number or list that an organisation sets: its default and its JSON schema."""

    default: Any
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """What a judge sees. `stack` is None where the program is not Muster's: then only what is registered
    counts.

    `settings` have every threshold of the rule, set or default. `stack_name` is the Pulumi stack. `broken` is
    what keeps a description of Muster's from being read.
    """

    registered: Registered
    settings: Mapping[str, Any]
    stack: Stack | None = None
    stack_name: str = ""
    broken: tuple[Violation, ...] = ()


@dataclass(frozen=True, slots=True)
class Described:
    """The stack's name and its description: neither `stack` nor `broken` where the program is not
    Muster's.
    """

    name: str
    stack: Stack | None = None
    broken: tuple[Violation, ...] = ()


Judge = Callable[[Case], Iterable[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A policy of the pack; `name` is its id in `--policy-pack-config`, `why` the harm that it prevents."""

    name: str
    description: str
    judge: Judge
    severity: Severity
    remediation: str
    url: str
    why: str = ""
    level: EnforcementLevel = EnforcementLevel.MANDATORY
    thresholds: Mapping[str, Threshold] = field(default_factory=lambda: MappingProxyType({}))

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: given.get(name, known.default) for name, known in self.thresholds.items()}

    def policy(self, described: Callable[[], Described]) -> StackValidationPolicy:
        """For the engine, which lets no policy read its stack before the policies run."""

        def validate(args: StackValidationArgs, report: ReportViolation) -> None:
            known = described()
            settings = self.settings(args.get_config())
            case = Case(read(args.resources), settings, known.stack, known.name, known.broken)
            for finding in self.judge(case):
                report(f"{finding.message} Fix: {self.remediation}", finding.urn)

        schema = {name: {**known.schema, "default": known.default} for name, known in self.thresholds.items()}
        return StackValidationPolicy(
            name=self.name,
            description=self.description,
            validate=validate,
            enforcement_level=self.level,
            config_schema=PolicyConfigSchema(properties=schema) if schema else None,
            severity=self.severity,
            remediation_steps=self.remediation,
            url=self.url,
        )


# The description itself: where it breaks a rule of the model, no other policy can judge it.


def valid(case: Case) -> Iterator[Finding]:
    """Every broken rule of a description that Muster's program would have refused."""
    yield from (Finding(str(violation)) for violation in case.broken)


RULES: Final = (
    Rule(
        name="description-valid",
        description="The stack's description follows the rules of the model.",
        why="Muster's own program refuses such a stack by itself; a program of yours may not.",
        judge=valid,
        severity=Severity.CRITICAL,
        remediation="`muster validate FILE` names the lines.",
        url="https://www.pulumi.com/docs/iac/concepts/config/",
    ),
)
