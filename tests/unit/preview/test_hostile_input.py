"""With any input a command ends with a report or a one-line error, never with a traceback."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.cli import main
from muster.preview.compare.diff import StackDiff
from muster.preview.document import Report
from muster.preview.html import format_html
from muster.preview.markdown import format_comment
from muster.preview.plan import Plan, PlanError, parse_plan
from muster.preview.report import to_stack_report
from tests.length import examples
from tests.unit.preview.preview_world import LOCAL, PLAN
from tests.unit.preview.test_report_markup import HOSTILE, _check_markdown, _check_page

_WHOLE = PLAN.read_text(encoding="utf-8")
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(HOSTILE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_STEP = st.dictionaries(
    st.sampled_from(["op", "urn", "oldState", "newState", "detailedDiff", "replaceReasons", "diffReasons"]),
    _ANY | st.sampled_from(["create", "replace", "urn:pulumi:a::b::c::d", *HOSTILE]),
)


def _reported(text: str) -> str | None:
    """The comment of a plan, checked as markup; None when the plan is refused, with its file named."""
    try:
        found = parse_plan(text, source="plan.json")
    except PlanError as error:
        message = str(error)
    else:
        return _checked(found)
    assert message.startswith("plan.json: ")
    assert "Fix: " in message
    return None


def _checked(found: Plan) -> str:
    report = Report((to_stack_report(StackDiff(name="dev", changes=None, head_plan=found)),))
    written = format_comment(report)
    _check_markdown(written)
    _check_page(format_html(report))
    return written


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, len(_WHOLE)))
def test_a_plan_that_was_cut_off_anywhere_is_refused_or_whole(at: int) -> None:
    assert (_reported(_WHOLE[:at]) is None) is (at < len(_WHOLE.rstrip()))


@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(_STEP, max_size=4), diagnostics=_ANY, config=_ANY)
def test_a_plan_of_any_shape_is_reported_as_whole_markup(
    steps: list[object], diagnostics: object, config: object
) -> None:
    _reported(json.dumps({"steps": steps, "diagnostics": diagnostics, "config": config}))


@settings(max_examples=examples(60), deadline=None)
@given(_ANY)
def test_any_other_json_is_refused_with_its_fix(value: object) -> None:
    _reported(json.dumps(value))


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("option", ["--head-plan", "--snapshot", "--prices", "--head"])
def test_a_foreign_file_ends_a_command_with_one_plain_line(
    word: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "foreign"
    path.write_text(word, encoding="utf-8", errors="surrogatepass")
    arguments = ["diff", "--base", f"x={LOCAL}"]
    arguments += [f"x={path}"] if option == "--head" else [f"x={LOCAL}", option]
    arguments += {"--head": [], "--prices": [str(path)]}.get(option, [f"x={path}"])
    code = main(arguments)
    found = capsys.readouterr()
    assert "\x1b" not in found.out + found.err
    assert "\u202e" not in found.out + found.err
    if option == "--head":
        _check_markdown(found.out)
    assert code == 2
    assert [line.partition(":")[0] for line in found.err.splitlines()] in (["Error"], ["Error", "Fix"])


@pytest.mark.parametrize(
    "command", ["why", "ci comment", "snapshot", "ci pins", "validate", "diff", "image push"]
)
def test_a_name_of_others_is_shown_without_what_a_terminal_would_obey(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    evil = "a\x1b[31mb\u202e/c/d"
    arguments = {"snapshot": ["--kubeconfig", evil]}.get(command, [evil])
    assert main([*command.split(), *arguments]) == 2
    found = capsys.readouterr()
    assert "\x1b" not in found.out + found.err
    assert "\u202e" not in found.out + found.err
