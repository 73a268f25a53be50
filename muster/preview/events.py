"""Converts the engine's events, one JSON object a line, to the digest that `pulumi preview --json` prints.

Only events contain policy violations: the digest that `preview --json` prints by default has none (pulumi
3.200, pkg/backend/display/json.go). With PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true the same command prints
events (sdk/go/common/apitype/events.go). After the conversion plan.py reads both in the same way.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from muster.live.fields import Json, mapping, text
from muster.printable import sanitize_line

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
