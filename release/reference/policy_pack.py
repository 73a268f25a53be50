"""The page of the policy pack, from its rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from pulumi_policy import EnforcementLevel

from muster.policies.pack import RULES
from muster.policies.rule import Rule, Threshold
from release.reference.markdown import WRITTEN, code, item

_HEAD: Final = f"""\
# Policies of the pack

{WRITTEN}

`pulumi preview --policy-pack policies` judges a stack by these rules. A *mandatory* one refuses the stack, an
*advisory* one warns. `--policy-pack-config` changes the level and the settings of a rule by its name:
[Rules for all stacks](../policy-pack.md).
"""
_EFFECT: Final = {EnforcementLevel.MANDATORY: "refuses", EnforcementLevel.ADVISORY: "warns"}


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for rule in RULES:
        parts += _rule(rule)
    return "\n".join(parts)


def _rule(rule: Rule) -> Iterator[str]:
    yield f"## {rule.name}\n"
    yield f"{rule.description} {rule.why}\n"
    yield f"- Effect: {_EFFECT[rule.level]} (severity {rule.severity.value})"
    yield f"- What to write: {rule.remediation}"
    yield f"- More: <{rule.url}>\n"
    if rule.thresholds:
        lines = (
            item(code(name), (f"default {code(json.dumps(found.default))}",), _allowed(found))
            for name, found in rule.thresholds.items()
        )
        yield "Settings:\n\n" + "\n".join(lines) + "\n"


def _allowed(threshold: Threshold) -> str:
    """The JSON schema of a setting in words."""
    schema = threshold.schema
    words = [_kind(schema)]
    words += [
        f"{word} {schema[key]:,}"
        for key, word in (("minimum", "at least"), ("maximum", "at most"))
        if key in schema
    ]
    text = ", ".join(words)
    return f"{text}. {schema['description']}" if "description" in schema else text


def _kind(schema: Any) -> str:
    kind = schema["type"]
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {schema['items']['type']}s"
    if kind == "object":
        return f"mapping of names to {schema['additionalProperties']['type']}s"
    return str(kind)
