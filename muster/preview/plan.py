"""Parses the output of `pulumi preview --json`.

Responsible for the operation on each resource, the changed properties, and the errors of the engine. Property
values are not kept, and of the configuration only the `muster:` keys, so nothing else can leak. Not
responsible for the contents of a Bundle (bundles.py).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from muster.live.errors import PreviewError
from muster.live.fields import mapping, text
from muster.live.sanitize import sanitize_line
from muster.preview.bundles import ObjectChange, compare_manifests
from muster.preview.events import PolicyViolation, parse_events, parse_violations
from muster.whole_file import read_at_most

# A thousand teams are about 30 MB of steps.
_MAX_BYTES: Final = 512 * 1024 * 1024
_NAMESPACE: Final = "muster:"
_MIN_SECRET_LENGTH: Final = 4

# The engine's operations, the gravest first. A replacement consists of several steps.
_VERBS: Final = (
    (
        ("replace", "create-replacement", "delete-replaced", "import-replacement", "read-replacement"),
        "replaced",
    ),
    (("delete",), "deleted"),
    (("create",), "created"),
    (("update",), "updated"),
    (("import",), "imported"),
    (("remove-pending-replace", "read-discard", "discard-replaced"), "forgotten"),
)
ORDER: Final = tuple(verb for _, verb in _VERBS)
_VERB_OF: Final = {op: verb for ops, verb in _VERBS for op in ops}
_UNCHANGED: Final = ("same", "read", "refresh")


class PlanError(PreviewError):
    """A file that is not a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource that changes. `fields` are the changed properties, `replaced_for` those that force a
    replacement.
    """

    urn: str
    type: str
    name: str
    verb: str
    fields: tuple[str, ...] = ()
    replaced_for: tuple[str, ...] = ()
    objects: tuple[ObjectChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`config` holds the `muster:` keys as the engine passed them to the program. `stack` is "" when no step
    names it.
    """

    source: str
    stack: str
    resources: tuple[Resource, ...]
    errors: tuple[str, ...]
    policy_violations: tuple[PolicyViolation, ...] = ()
    config: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


def load_plan(path: Path) -> Plan:
    """The plan in a file; PlanError when it is not one."""
    try:
        if (content := read_at_most(path, _MAX_BYTES)) is None:
            raise PlanError(
                f"{path}: larger than {_MAX_BYTES // 2**20} MiB.", fix="preview fewer stacks at once."
            )
        text = content.decode()
    except OSError as error:
        raise PlanError(
            f"{path}: cannot be read: {error.strerror}.", fix="name a plan that exists."
        ) from None
    except UnicodeDecodeError:
        raise PlanError(f"{path}: not UTF-8 text.", fix=_HOW) from None
    return parse_plan(text, source=str(path))


_HOW: Final = "write it again with `pulumi preview --json --stack STACK > FILE`."


def parse_plan(text: str, *, source: str) -> Plan:
    """The plan in a text; PlanError when it is not one."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        streamed = parse_events(text)
        if streamed is not None:
            return _to_plan(streamed, source)
        raise PlanError(f"{source}: {_explain_error(text, error)}", fix=_HOW) from None
    except (RecursionError, ValueError) as error:
        raise PlanError(f"{source}: not a plan: {sanitize_line(str(error))}.", fix=_HOW) from None
    if not isinstance(found, dict) or not isinstance(found.get("steps", []), list):
        raise PlanError(f"{source}: JSON, but not the output of `pulumi preview --json`.", fix=_HOW)
    if isinstance(found.get("sequence"), int) and (streamed := parse_events(text)) is not None:
        return _to_plan(streamed, source)
    if "steps" not in found and "diagnostics" not in found:
        raise PlanError(f"{source}: the plan has neither steps nor diagnostics.", fix=_HOW)
    return _to_plan(found, source)


def _explain_error(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return "the file is empty: pulumi stopped before it printed a plan."
    if error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated"):
        return f"the file is incomplete: it ends in line {error.lineno}."
    if error.msg == "Extra data":
        return f"the file has more than one JSON document; the second begins in line {error.lineno}."
    return f"not JSON in line {error.lineno}: {error.msg}."


def _to_plan(found: Mapping[str, object], source: str) -> Plan:
    steps = [step for step in _list(found.get("steps")) if isinstance(step, dict) and text(step.get("urn"))]
    by_urn: dict[str, list[Mapping[str, object]]] = {}
    for step in steps:
        by_urn.setdefault(text(step["urn"]), []).append(step)
    resources = [
        resource for urn, same in by_urn.items() if (resource := _to_resource(urn, same)) is not None
    ]
    secrets = sorted(set(_find_secrets(found)), key=lambda each: (-len(each), each))
    return Plan(
        source=source,
        stack=_stack(by_urn),
        resources=tuple(sorted(resources, key=lambda each: (ORDER.index(each.verb), each.urn))),
        errors=tuple(_parse_errors(found, secrets)),
        policy_violations=tuple(
            sorted(set(_violations(found, secrets)), key=lambda each: (not each.is_mandatory, each))
        ),
        config={
            key: value for key, value in mapping(found.get("config")).items() if key.startswith(_NAMESPACE)
        },
    )


def _to_resource(urn: str, steps: list[Mapping[str, object]]) -> Resource | None:
    verbs = [
        # An operation that a newer engine adds is shown as an update instead of dropped.
        _VERB_OF.get(text(step.get("op")), "updated")
        for step in steps
        if step.get("op") not in _UNCHANGED
    ]
    if not verbs:
        return None
    qualified, _, name = urn.rpartition("::")
    kind = qualified.rpartition("::")[2].rpartition("$")[2]
    first = next((step for step in steps if step.get("oldState") or step.get("newState")), steps[0])
    old, new = _manifests(first.get("oldState")), _manifests(first.get("newState"))
    return Resource(
        urn=urn,
        type=kind,
        name=name,
        verb=min(verbs, key=ORDER.index),
        fields=_fields(steps),
        replaced_for=_strings(steps, "replaceReasons"),
        objects=tuple(compare_manifests(old, new)) if kind == "muster:k8s:Bundle" else (),
    )


def _fields(steps: list[Mapping[str, object]]) -> tuple[str, ...]:
    detailed = {key for step in steps for key in mapping(step.get("detailedDiff"))}
    return tuple(sorted(detailed)) or _strings(steps, "diffReasons")


def _strings(steps: list[Mapping[str, object]], key: str) -> tuple[str, ...]:
    return tuple(sorted({word for step in steps for word in _list(step.get(key)) if isinstance(word, str)}))


def _manifests(state: object) -> dict[str, str]:
    found = mapping(mapping(mapping(state).get("inputs")).get("manifests"))
    return {key: value for key, value in found.items() if isinstance(value, str)}


def _stack(urns: Mapping[str, object]) -> str:
    """The second part of `urn:pulumi:STACK::PROJECT::TYPE::NAME`."""
    for urn in urns:
        prefix, _, rest = urn.partition("urn:pulumi:")
        if not prefix and "::" in rest:
            return rest.partition("::")[0]
    return ""


def _parse_errors(found: Mapping[str, object], secrets: list[str]) -> Iterator[str]:
    for each in _list(found.get("diagnostics")):
        diagnostic = mapping(each)
        if diagnostic.get("severity") == "error" and isinstance(diagnostic.get("message"), str):
            message = _redact(text(diagnostic["message"]), secrets)
            yield sanitize_line(message.removeprefix("error: "), longest=600)


def _violations(found: Mapping[str, object], secrets: list[str]) -> Iterator[PolicyViolation]:
    for each in parse_violations(found.get("policies")):
        yield replace(each, message=_redact(each.message, secrets))


def _redact(message: str, secrets: list[str]) -> str:
    for secret in secrets:
        message = message.replace(secret, "[secret]")
    return message


def _find_secrets(value: object) -> Iterator[str]:
    """Every secret in plain text, as `--show-secrets` writes them. They are removed from messages."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            opened = each.get("plaintext")
            if isinstance(opened, str) and len(opened) >= _MIN_SECRET_LENGTH:
                yield opened
                yield opened.strip('"')
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
