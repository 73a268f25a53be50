"""The engine's events, one JSON object a line, in the shape of `pulumi preview --json`.

Only events tell what a policy pack found: the digest that `preview --json` prints by default leaves it out
(pulumi 3.200, pkg/backend/display/json.go). With PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true the same command
prints events (sdk/go/common/apitype/events.go). Decides how the one becomes the other, so that plan.py reads
both alike.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from muster.live.fields import Json, mapping, text
from muster.live.sanitize import sanitize_line

_UNFINISHED: Final = "the engine ended before its summary: what it had not reached is not told."


@dataclass(frozen=True, slots=True, order=True)
class PolicyViolation:
    """A policy that is broken. `is_mandatory`: it stops the update. `urn` is "" for the stack as a whole."""

    is_mandatory: bool
    policy: str
    urn: str
    message: str


def parse_events(lines: str) -> dict[str, object] | None:
    """The digest that the events amount to, with `policies` besides; None when the text is no such events."""
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
        if said := mapping(event, "diagnosticEvent"):
            diagnostics.append({"severity": said.get("severity"), "message": said.get("message")})
        if policy := mapping(event, "policyEvent"):
            policies.append(policy)
        is_finished = is_finished or "summaryEvent" in event
    if not is_finished:
        diagnostics.append({"severity": "error", "message": _UNFINISHED})
    return found | {"steps": steps, "diagnostics": diagnostics, "policies": policies}


def parse_violations(found: object) -> Iterator[PolicyViolation]:
    """What the policy events of a digest say. A policy that mends what it finds (`remediate`) is told too."""
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
    """Each line's object; None for a line that holds none, as the last of a file that was cut off."""
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
