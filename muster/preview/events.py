"""Converts the engine's events, one JSON object a line, to the digest that `pulumi preview --json` prints.

Only events contain policy violations: the digest that `preview --json` prints by default has none (pulumi
3.200, pkg/backend/display/json.go). With PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true the same command prints
events (sdk/go/common/apitype/events.go). After the conversion plan.py reads both in the same way.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from muster.live.fields import Json, mapping, sanitize_line, text
from muster.preview.compare.changes import Changes
from muster.preview.compare.kai import KaiRules
from muster.preview.compare.preemption import PreemptionChange
from muster.preview.document import Span, Text, UntrustedText, join_names

# What is new in preemption, as sentences: `speech` can now evict `notebooks` on `l4`, `prod` over `dev`.
# The rules are in compare/.

_NAMES = 3


def new_evictions(changes: Changes, *, is_kai: bool, only_old: bool = False) -> Iterator[Text]:
    """One sentence for each new right on a pool with GPUs.

    With `only_old` of teams that base has as well: a new team's rights follow from its being new.
    """
    for row in changes.preemption:
        who, whom = row.preemptors, row.victims
        if only_old:
            who, whom = (tuple(name for name in side if name in changes.before.nodes) for side in (who, whom))
        is_pair = row.right is None or bool(set(whom) - set(who)) or len(whom) > 1
        if row.is_new and who and whom and is_pair and (sentence := _sentence(changes, row, who, whom)):
            yield (*sentence, *_ranks(changes, row, who, whom, is_kai=is_kai))


def _sentence(changes: Changes, row: PreemptionChange, who: tuple[str, ...], whom: tuple[str, ...]) -> Text:
    """Empty where only pools without GPUs are concerned, or a new team's own work."""
    if row.right is None:
        known = tuple(name for name in who if name in changes.before.nodes)
        work = " can now evict work of a lower priority of the same team"
        return (*join_names(known, most=_NAMES), work, *_takers(changes, known[0])) if known else ()
    pools = tuple(name for name in row.pools if changes.after.pools[name].is_gpu)
    if not pools:
        return ()
    victims: Text = ("each other",) if who == whom else join_names(whom, most=_NAMES)
    return (
        *join_names(who, most=_NAMES),
        " can now evict ",
        *victims,
        " on ",
        *join_names(pools, most=_NAMES),
    )


def _takers(changes: Changes, team: str) -> Text:
    """With KAI, by name, what it means where no more nodes come: Muster's gate lets it happen."""
    rules = changes.rules[1]
    if not isinstance(rules, KaiRules):
        return ()
    high, low = rules.extremes(team)
    return (": ", UntrustedText(high), " can take the GPUs of ", UntrustedText(low))


def _ranks(
    changes: Changes, row: PreemptionChange, who: tuple[str, ...], whom: tuple[str, ...], *, is_kai: bool
) -> Iterator[Span]:
    """`, prod over dev` where the preemptor's priority has to be higher."""
    nodes, names = changes.after.nodes, changes.after.priorities
    first = nodes[who[0]]
    if is_kai or row.right is None or first.reclaim in ("Any", "Never"):
        return
    lowest = {nodes[name].lowest for name in whom}
    high, low = names.get(first.highest), names.get(min(lowest))
    if high is not None and low is not None:
        yield from (", ", UntrustedText(high), " over ", UntrustedText(low))


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
