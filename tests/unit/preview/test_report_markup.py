"""Whatever a name contains, the markup of a report is intact, without foreign links or mentions."""

import json
import random
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster import config
from muster.model.queues import Allowance, Bound, Department, Limit
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces
from muster.model.violations import Violation
from muster.preview.compare.diff import Changes, StackDiff, compare
from muster.preview.document import Report, UntrustedText
from muster.preview.html import format_html
from muster.preview.markdown import MAX_BYTES, format_comment
from muster.preview.plan import load_plan, parse_plan
from muster.preview.report import to_stack_report
from muster.printable import sanitize_line
from tests.length import examples
from tests.unit.model.model_stacks import CPU, L4, gpus, stack, team, two_teams
from tests.unit.preview.preview_world import LOCAL, PLAN, plan, report, step

HOSTILE = [
    "[click](https://evil.example)",
    "`` ` ``` ~~~",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</code></td></table><a href=https://evil.example>x</a>",
    "a | b | c",
    "@everyone #1 https://evil.example www.evil.example",
    "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07",
    "line\nbreak\r\n## Heading\n```\nfence",
    "\u202egnp.exe\u202c \u200b",
    "-->\n<!-- ",
    "\\| \\` \\",
    '"]; click n0 "https://evil.example" %% end',
    "\ud800 lone surrogate",
    "</style></script></svg></title>",
    "",
    "   ",
    "x" * 5000,
]


def _hostile() -> Report:
    """Hostile text wherever others can write: names, types, fields, objects, reasons, messages."""
    manifest = {word or "empty": json.dumps({word: {"spec": {word: 1}}}) for word in HOSTILE}
    changed = {word or "empty": json.dumps({word: {"spec": {word: 2}}}) for word in HOSTILE}
    steps = [
        step(op, word, kind=word, replaceReasons=[word], detailedDiff={word: {}})
        for op, word in zip(["update", "replace", "delete"] * 6, HOSTILE, strict=True)
    ]
    states = {"oldState": {"inputs": {"manifests": manifest}}, "newState": {"inputs": {"manifests": changed}}}
    found = plan(*steps, step("update", "b", kind="muster:k8s:Bundle", **states), errors=tuple(HOSTILE))
    diffs = [
        StackDiff(
            name=word,
            changes=_foreign_names(word or "n"),
            head_mistakes=tuple(Violation(each, each, each) for each in HOSTILE),
            head_plan=found,
        )
        for word in HOSTILE
    ]
    return Report(tuple(to_stack_report(each) for each in diffs))


def _foreign_names(word: str) -> Changes:
    """A rule refuses such names; the report must not rely on it."""
    pool = replace(L4, name=word)
    teams = (
        team(f"{word}-a", Allowance(quota={word: gpus(1)}, borrow=Limit(otherwise=Bound.ALL))),
        team(f"{word}-b", Allowance(quota={word: gpus(2)})),
    )
    return compare(two_teams(Allowance()), stack(Department(name=word + "d", teams=teams), pools=(CPU, pool)))


_VOID = {"meta", "line", "rect"}


class _Page(HTMLParser):
    """Fails on a tag that is not closed in order; keeps every tag and attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[tuple[str, str]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen |= {(tag, name) for name, _ in attrs} | {(tag, "")}
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen |= {(tag, name) for name, _ in attrs} | {(tag, "")}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _check_page(text: str) -> _Page:
    found = _Page()
    found.feed(text)
    found.close()
    assert found.open == []
    tags = {tag for tag, _ in found.seen}
    assert not tags & {"a", "img", "iframe", "object", "form", "link", "base"}
    assert not [name for _, name in found.seen if name.startswith("on") or name in ("href", "src", "style")]
    assert text.count("<script") == 1
    return found


_DRAWN = re.compile(
    r"graph LR|  n\d+ --> n\d+|  style n\d+ [\w:#,-]+"
    r'|  n\d+(?:\["(?:[\w .,→±−()-]|<br/>)*"\]|\(\["(?:[\w .,→±−()-]|<br/>)*"\]\))'
)


def _check_markdown(text: str) -> None:
    """Line by line, with code spans taken out, only our own words and signs are left."""
    is_fenced, cells = False, 0
    for line in text.splitlines():
        if line.startswith("```"):
            assert line == ("```" if is_fenced else "```mermaid")
            is_fenced = not is_fenced
            continue
        if is_fenced:
            assert _DRAWN.fullmatch(line), line
            continue
        bare = re.sub(r"`[^`]+`", "CODE", line)
        assert "`" not in bare, line
        assert not re.search(r"https?:|www\.|@|!\[|\]\(|\\", bare), line
        assert not re.sub(r"</?(details|summary)>", "", bare).count("<"), line
        if line.startswith("|"):
            assert cells in (0, line.count("|")), line
        cells = line.count("|") if line.startswith("|") else 0
    assert not is_fenced


def test_hostile_text_stays_text_in_markdown() -> None:
    text = format_comment(_hostile(), longest=10**9)
    _check_markdown(text)
    text.encode()
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_hostile_text_stays_text_in_html() -> None:
    text = format_html(_hostile())
    _check_page(text)
    text.encode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


@settings(max_examples=examples(80), deadline=None)
@given(st.text())
def test_plain_text_is_one_bounded_line_that_can_be_written(text: str) -> None:
    found = sanitize_line(text)
    assert len(found) <= 300
    assert len(found.splitlines()) <= 1
    found.encode()
    assert sanitize_line(found) == found


def _large(change: int) -> Stack:
    """3,000 teams in 30 departments below one."""
    departments = tuple(
        Department(
            name=f"d{index}",
            teams=tuple(
                team(
                    f"team-{index}-{each}",
                    Allowance(
                        quota={"l4": gpus(1 + change * (each % 2))}, borrow=Limit(pools={"l4": Bound.ALL})
                    ),
                )
                for each in range(100)
            ),
        )
        for index in range(30)
    )
    return stack(Department(name="all", departments=departments), pools=(CPU, replace(L4, max_nodes=50_000)))


def test_thousands_of_queues_fit_a_comment_by_dropping_whole_parts() -> None:
    found = report(_large(0), _large(1))
    text = format_comment(found)
    assert len(text.encode()) <= MAX_BYTES
    _check_markdown(text)
    assert "1496 more gain quota**" in text
    assert "Left out, too long for a comment: Quota of teams" in text
    assert "Guaranteed `l4` GPU in sum: 3000 → 4500." in text
    assert "<summary>Quota of departments" in text
    assert format_html(found).count("<tr") > 1_500


@pytest.mark.parametrize("longest", [60_000, 5_000, 2_500, 1_200, 400])
def test_a_comment_is_never_longer_than_its_bound_and_always_whole(longest: int) -> None:
    text = format_comment(_hostile(), longest=longest)
    assert len(text.encode()) <= longest
    _check_markdown(text)


def test_the_least_important_section_is_left_out_first() -> None:
    base, head = two_teams(Allowance()), two_teams(Allowance(quota={"l4": gpus(2)}))
    found = report(base, head, plan(step("delete"), step("update", "other")))
    whole = format_comment(found)
    shorter = format_comment(found, longest=len(whole.encode()) - 1)
    assert "Left out, too long for a comment: Resources created or updated." in shorter
    assert "<summary>Resources replaced or deleted</summary>" in shorter
    assert format_comment(found, longest=len(whole.encode())) == whole


def test_the_same_input_gives_the_same_bytes_whatever_its_order() -> None:
    base = config.load(LOCAL)
    head = config.parse(load_plan(PLAN).config, source="stacks/none.yaml")
    document = json.loads(PLAN.read_text(encoding="utf-8"))
    first = report(base, head, parse_plan(json.dumps(document), source="a"))
    random.Random(7).shuffle(document["steps"])
    second = report(base, head, parse_plan(json.dumps(document, sort_keys=True), source="b"))
    assert format_comment(first) == format_comment(second)
    assert format_html(first) == format_html(second)


def _of_the_plan() -> Report:
    head = config.parse(load_plan(PLAN).config, source="stacks/none.yaml")
    return report(config.load(LOCAL), head, load_plan(PLAN), name="local")


def test_quota_comes_before_resources_and_grave_resources_first() -> None:
    text = format_comment(_of_the_plan())
    order = [
        "**`team-b` -1 H100 and -1 L4 (removed); `team-a` +1 L4, `team-d` +1 H100 (new); ",
        "| `team-a` | `research` | `l4` GPU | 1 → 2 | +1 | 1 → 0 | all | 2 |",
        "- `team-b` removed, with namespace and all that is in it.\n",
        "| new | `team-d` | `team-a` | `cpu`, `h100` | reclaims its quota |",
        "| `team-a` | `l4` GPU | up to 1 | nothing |",
        "```mermaid",
        "| deleted | `muster:k8s:Bundle` | `team-b` |",
        "| created | `muster:k8s:Bundle` | `team-d` |",
    ]
    assert sorted(order, key=text.index) == order


def test_namespaces_that_muster_stops_guarding_are_looked_at_closely() -> None:
    base = config.load(LOCAL)
    head = replace(base, tenancy=replace(base.tenancy, namespaces=Namespaces.EXISTING))
    text = format_comment(report(base, head))
    assert "**namespaces no longer guarded**" in text
    assert "The namespaces stay with their work and data" in text
    assert "no longer guarded" not in format_comment(report(head, base))


def test_the_page_needs_nothing_else_and_tells_the_tree_to_a_screen_reader() -> None:
    text = format_html(_of_the_plan())
    found = _check_page(text)
    assert ("svg", "aria-label") in found.seen
    assert 'aria-label="guaranteed 1 → 2, could use 2"' in text
    assert ("div", "tabindex") in found.seen
    assert ("th", "scope") in found.seen
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    assert "http://" not in text
    assert "https://" not in text
    assert (
        "<span class='node team more'><code>team-a</code> <em>more</em> <span class=note>l4 1 → 2</span>"
        in text
    )


def test_money_has_no_number_without_a_source() -> None:
    base = stack(Department(name="research", teams=(team("team-a"),)))
    head = stack(Department(name="research", teams=(team("team-a"),)), pools=(CPU, replace(L4, max_nodes=20)))
    text = format_comment(report(base, head))
    assert "| `l4` | 0 to 10 → 0 to 20 | 10 → 20 | 0 to 240 → 0 to 480 |" in text
    assert "not priced" in text


def test_an_empty_change_has_one_line_and_no_section() -> None:
    one = two_teams(Allowance())
    assert format_comment(report(one, one)) == "## Muster preview: `dev`\n\n**Nothing changes.**\n"


def test_a_name_without_a_letter_is_still_seen() -> None:
    assert UntrustedText("\n \t").text == ""
    assert format_comment(report(two_teams(Allowance()), two_teams(Allowance()), name="")).startswith(
        "## Muster preview: (empty)\n"
    )
