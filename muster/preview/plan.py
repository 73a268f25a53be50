"""Parses the output of `pulumi preview --json`.

Responsible for the operation on each resource, the changed properties, and the errors of the engine. Property
values are not kept, and of the configuration only the `muster:` keys, so nothing else can leak.

Only the engine's events, one JSON object a line, contain policy violations: the digest that `preview --json`
prints by default has none (pulumi 3.200, pkg/backend/display/json.go). With
PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true the same command prints events (sdk/go/common/apitype/events.go).
They are converted to the digest first, so that both are read in the same way.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from muster.errors import MusterError
from muster.live.fields import Json, mapping, text
from muster.printable import sanitize_line
from muster.whole_file import read_at_most

_UNFINISHED: Final = "the engine ended before its summary, so the list of changes is incomplete."


@dataclass(frozen=True, slots=True, order=True)
class PolicyViolation:
    """A policy violation. `is_mandatory`: it stops the update. `urn` is "" for the stack as a whole."""

    is_mandatory: bool
    policy: str
    urn: str
    message: str


def parse_events(lines: str) -> dict[str, object] | None:
    """The digest of the events, with `policies` added; None when the text is not such events."""
    events = list(_events(lines))
    if not events or any(each is None for each in events[:-1]) or (events[0] or {}).get("sequence") is None:
        return None
    found: dict[str, object] = {"config": {}, "steps": [], "diagnostics": [], "policies": []}
    steps, diagnostics, policies = list[Json](), list[Json](), list[Json]()
    is_finished = False
    for event in events:
        if event is None:
            break
        if prelude := mapping(event, "preludeEvent"):
            found["config"] = mapping(prelude, "config")
        if metadata := mapping(event, "resourcePreEvent", "metadata"):
            steps.append(_step(metadata))
        if diagnostic := mapping(event, "diagnosticEvent"):
            diagnostics.append({"severity": diagnostic.get("severity"), "message": diagnostic.get("message")})
        if policy := mapping(event, "policyEvent"):
            policies.append(policy)
        is_finished = is_finished or "summaryEvent" in event
    if not is_finished:
        diagnostics.append({"severity": "error", "message": _UNFINISHED})
    return found | {"steps": steps, "diagnostics": diagnostics, "policies": policies}


def parse_violations(found: object) -> Iterator[PolicyViolation]:
    """The violations of a digest. A policy that corrects a resource (`remediate`) is included."""
    for each in found if isinstance(found, list) else []:
        name = f"{text(each, 'policyPackName')}/{text(each, 'policyName')}"
        message = text(each, "message").removeprefix("error: ")
        yield PolicyViolation(
            text(each, "enforcementLevel") != "warning",
            sanitize_line(name),
            sanitize_line(text(each, "resourceUrn"), longest=600),
            sanitize_line(message, longest=600),
        )


def _events(lines: str) -> Iterator[Json | None]:
    """The object of each line; None for a line without one, such as the last line of an incomplete file."""
    for line in lines.splitlines():
        if line.strip():
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            yield found if isinstance(found, dict) else None


def _step(metadata: Json) -> Json:
    names = {
        "op": "op",
        "urn": "urn",
        "oldState": "old",
        "newState": "new",
        "diffReasons": "diffs",
        "replaceReasons": "keys",
        "detailedDiff": "detailedDiff",
    }
    return {ours: metadata[theirs] for ours, theirs in names.items() if metadata.get(theirs) is not None}


# Compares the Kubernetes objects of a Bundle, field by field.
# Manifests are compared key by key (a key is a team, a department or a kind of object) and object by object.
# Only the paths of fields are reported, never their values: a manifest may hold a secret.

# At most this many fields of one object are listed.
_MAX_FIELDS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """An object (`ClusterQueue/team-a`) under a key of the Bundle. `places` are the paths of changed
    fields.
    """

    key: str
    name: str
    verb: str
    places: tuple[str, ...] = ()


def compare_manifests(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[ObjectChange]:
    """The changes from one Bundle's manifests to another's, by key and name."""
    for key in sorted({*before, *after}):
        if before.get(key) == after.get(key):
            continue
        old, new = _parse_objects(before.get(key)), _parse_objects(after.get(key))
        if old is None or new is None:  # a secret, or not JSON
            yield ObjectChange(key=key, name="", verb="updated")
            continue
        for name in sorted({*old, *new}):
            verb = "created" if name not in old else "deleted" if name not in new else "updated"
            places = tuple(_changed_fields(old[name], new[name])) if verb == "updated" else ()
            if verb != "updated" or places:
                yield ObjectChange(key=key, name=name, verb=verb, places=places[:_MAX_FIELDS])


def _parse_objects(manifest: str | None) -> dict[str, object] | None:
    if manifest is None:
        return {}
    try:
        found = json.loads(manifest)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    kind = found.get("kind")
    if isinstance(kind, str):  # one object instead of several by name
        return {f"{kind}/{text(found, 'metadata', 'name')}": found}
    return found


def _changed_fields(old: object, new: object, at: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _changed_fields(old.get(key), new.get(key), f"{at}.{key}" if at else key)
    elif isinstance(old, list) and isinstance(new, list) and (names := _by_name(old, new)) is not None:
        one, two = names
        for name in sorted({*one, *two}):
            yield from _changed_fields(one.get(name), two.get(name), f"{at}[{name}]")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one_item, two_item) in enumerate(zip(old, new, strict=True)):
            yield from _changed_fields(one_item, two_item, f"{at}[{index}]")
    elif old != new:
        yield at


def _by_name(
    old: list[object], new: list[object]
) -> tuple[dict[str, dict[str, object]], dict[str, dict[str, object]]] | None:
    """Both lists by name, where every item has one: `flavors[l4].resources[cpu]`. None otherwise."""
    sides = []
    for items in (old, new):
        side = {str(each["name"]): each for each in items if isinstance(each, dict) and "name" in each}
        if len(side) != len(items):
            return None
        sides.append(side)
    return sides[0], sides[1]


# Finds actions and images in CI files that are not pinned to a digest.
# A tag can be moved to other code after a review; a digest cannot
# (https://docs.github.com/en/actions/reference/security/secure-use#using-third-party-actions). A
# placeholder of Muster's own files is reported separately: the user has to fill it in.

PLACEHOLDER: Final = "FILL-IN"
_USES: Final = re.compile(r"^\s*(?:-\s+)?uses:\s*[\"']?(?P<what>[^\s\"'#]+)")
_IMAGE: Final = re.compile(r"^\s*(?:-\s+)?(?:image|container):\s*[\"']?(?P<what>[^\s\"'#{\[]+)")
_ACTION: Final = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}\Z", re.ASCII)
_DIGEST: Final = re.compile(r"[\w.:/-]+@sha256:[0-9a-f]{64}\Z", re.ASCII)


class PinError(MusterError):
    """A file that cannot be read."""


@dataclass(frozen=True, slots=True)
class UnpinnedReference:
    """A reference that is not pinned. Lines are counted from 1."""

    line: int
    what: str
    is_placeholder: bool

    @property
    def fix(self) -> str:
        digest = "its 40-digit commit" if "sha256" not in self.what else "its sha256 digest"
        if self.is_placeholder:
            return f"fill in {digest}, of a release that you have reviewed."
        return f"use {digest} instead of a tag, which can be moved."


def read_unpinned(path: Path) -> tuple[UnpinnedReference, ...]:
    """Every unpinned reference in a workflow or pipeline."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise PinError(f"{path}: cannot be read: {why}.", fix="name a workflow or pipeline file.") from None
    return tuple(_parse_unpinned(text))


def _parse_unpinned(text: str) -> Iterator[UnpinnedReference]:
    for index, line in enumerate(text.splitlines(), start=1):
        for pattern, pinned in ((_USES, _ACTION), (_IMAGE, _DIGEST)):
            found = pattern.match(line)
            if found is None or pinned.match(found["what"]) or found["what"].startswith("./"):
                continue
            yield UnpinnedReference(index, found["what"], PLACEHOLDER in found["what"])


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
GRAVE: Final = ("replaced", "deleted")
_VERB_OF: Final = {op: verb for ops, verb in _VERBS for op in ops}
_UNCHANGED: Final = ("same", "read", "refresh")


class PlanError(MusterError):
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
