"""A stream of events is read like a digest, and policy violations are listed."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.preview.compare.diff import StackDiff
from muster.preview.document import Report
from muster.preview.markdown import format_comment
from muster.preview.plan import Plan, PlanError, parse_plan
from muster.preview.report import to_stack_report
from tests.length import examples
from tests.unit.preview.preview_world import HERE, PLAN

# What `PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true pulumi preview --json` (3.200) printed for a program that
# makes one component and complains; debug messages and repeated outputs are left out.
STREAM = (HERE / "events.jsonl").read_text(encoding="utf-8")


def _policy(level: str = "mandatory", **more: Any) -> dict[str, Any]:
    """As sdk/go/common/apitype/events.go declares it."""
    return {
        "policyEvent": {
            "resourceUrn": "urn:pulumi:dev::muster::muster:k8s:Bundle::team-a",
            "message": "[mandatory] muster/quota: team-a has no quota. Fix: give it some.\n",
            "policyName": "quota",
            "policyPackName": "muster",
            "enforcementLevel": level,
            **more,
        }
    }


def _stream(*more: dict[str, Any], is_whole: bool = True) -> str:
    events = [json.loads(line) for line in STREAM.splitlines()]
    at = next(index for index, each in enumerate(events) if "summaryEvent" in each)
    tail = events[at:] if is_whole else []
    return "\n".join(json.dumps(each) for each in [*events[:at], *more, *tail])


def _comment(plan: Plan) -> str:
    return format_comment(Report((to_stack_report(StackDiff(name="dev", changes=None, head_plan=plan)),)))


def test_a_stream_is_read_like_a_digest() -> None:
    found = parse_plan(STREAM, source="x")
    assert (found.stack, found.config) == ("dev", {"muster:pools": '{"l4":{"a":1}}'})
    assert [(each.verb, each.name) for each in found.resources] == [("created", "p"), ("created", "t-dev")]
    assert found.errors == ("bad thing",)


def test_a_stream_of_events_gives_the_same_plan_as_a_digest() -> None:
    digest = json.loads(PLAN.read_text(encoding="utf-8"))
    renamed = {"oldState": "old", "newState": "new", "diffReasons": "diffs", "replaceReasons": "keys"}
    events: list[dict[str, Any]] = [{"sequence": 0, "preludeEvent": {"config": digest["config"]}}]
    for step in digest["steps"]:
        metadata = {renamed.get(key, key): value for key, value in step.items()}
        events.append({"sequence": 1, "resourcePreEvent": {"metadata": metadata, "planning": True}})
    events.append({"sequence": 2, "summaryEvent": {}})
    streamed = parse_plan("\n".join(map(json.dumps, events)), source="x")
    printed = parse_plan(json.dumps(digest), source="x")
    assert streamed.resources == printed.resources
    assert (streamed.config, streamed.stack) == (printed.config, printed.stack)


def test_a_broken_policy_refuses_and_a_warning_does_not() -> None:
    text = _comment(parse_plan(_stream(_policy()), source="x"))
    assert "**Refused by the policy pack: 1 violation." in text
    assert "| stops the update | `muster/quota` | `team-a` |" in text
    text = _comment(parse_plan(_stream(_policy("warning", resourceUrn="")), source="x"))
    assert "- Policies: 1 warning." in text
    assert "| warning | `muster/quota` | the stack |" in text


def test_a_stream_without_its_end_is_reported_as_far_as_it_goes() -> None:
    found = parse_plan(_stream(_policy(), is_whole=False), source="x")
    assert found.errors[-1].startswith("the engine ended before its summary")
    assert len(found.policy_violations) == 1
    cut = parse_plan(_stream(is_whole=False)[:-25], source="x")
    assert cut.errors[-1].startswith("the engine ended before its summary")


def test_a_secret_is_cut_from_what_a_policy_says() -> None:
    secret = {
        "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
        "plaintext": '"hunter2"',
    }
    step = {"op": "create", "urn": "urn:pulumi:dev::m::t::n", "new": {"inputs": {"password": secret}}}
    event = {"resourcePreEvent": {"metadata": step}}
    found = parse_plan(_stream(event, _policy(message="password hunter2 is weak")), source="x")
    assert found.policy_violations[0].message == "password [secret] is weak"


@pytest.mark.parametrize("text", ["1\n2\n", '{"a": 1}\n{"b": 2}\n', '{"sequence": "x"}', "{}\n{}"])
def test_lines_of_something_else_are_no_plan(text: str) -> None:
    with pytest.raises(PlanError):
        parse_plan(text, source="x")


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_EVENT = st.sampled_from(
    ["policyEvent", "preludeEvent", "diagnosticEvent", "resourcePreEvent", "summaryEvent"]
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(_EVENT, _ANY), max_size=5))
def test_events_of_any_shape_are_read(events: list[tuple[str, object]]) -> None:
    lines = [{"sequence": index, kind: value} for index, (kind, value) in enumerate(events)]
    text = "\n".join(json.dumps(each) for each in [{"sequence": 0}, *lines])
    _comment(parse_plan(text, source="x"))
