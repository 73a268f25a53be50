"""Changing one value of a stack file keeps every other byte."""

import difflib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.config.edit import EditError, StackText

_TEXT = """\
# Größe: ümlauts before the place must not move it 🙂
config:
  muster:departments:
    research: # shared
      teams:
        vision: {quota: {l4: 16, h100: 32}, borrow: {l4: 8}, weight: 2} # a team
        speech:
          # the guarantee
          quota:
            h100: 16 # two nodes
            # nothing of l4

          weight: 1

        empty: {}
        words: {quota: {h100: {gpus: 8, cpu: 4}}, borrow: all}
    product:
      teams: {ranking: {quota: {h100: 8}}}
"""
_TEAMS = ("muster:departments", "research", "teams")


def _changed(path: tuple[str, ...], value: int, text: str = _TEXT) -> list[str]:
    """The lines that go and come."""
    new = StackText(text).with_value(path, value)
    lines = difflib.unified_diff(text.splitlines(), new.splitlines(), lineterm="", n=0)
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def test_a_number_is_replaced_in_place() -> None:
    assert _changed((*_TEAMS, "speech", "quota", "h100"), 8) == [
        "-            h100: 16 # two nodes",
        "+            h100: 8 # two nodes",
    ]
    assert _changed((*_TEAMS, "words", "quota", "h100", "gpus"), 16) == [
        "-        words: {quota: {h100: {gpus: 8, cpu: 4}}, borrow: all}",
        "+        words: {quota: {h100: {gpus: 16, cpu: 4}}, borrow: all}",
    ]


def test_a_key_is_added_in_braces() -> None:
    assert _changed((*_TEAMS, "vision", "borrow", "h100"), 16) == [
        "-        vision: {quota: {l4: 16, h100: 32}, borrow: {l4: 8}, weight: 2} # a team",
        "+        vision: {quota: {l4: 16, h100: 32}, borrow: {l4: 8, h100: 16}, weight: 2} # a team",
    ]
    assert _changed((*_TEAMS, "empty", "quota", "l4"), 1) == [
        "-        empty: {}",
        "+        empty: {quota: {l4: 1}}",
    ]
    assert _changed((*_TEAMS, "words", "lend", "h100"), 4)[1] == (
        "+        words: {quota: {h100: {gpus: 8, cpu: 4}}, borrow: all, lend: {h100: 4}}"
    )


def test_a_key_is_added_below_the_last_line_of_its_mapping() -> None:
    assert _changed((*_TEAMS, "speech", "borrow", "h100"), 4) == ["+          borrow: {h100: 4}"]
    assert _changed((*_TEAMS, "speech", "quota", "l4"), 4) == ["+            l4: 4"]


def test_lines_that_end_as_on_windows_stay_so() -> None:
    text = _TEXT.replace("\n", "\r\n")
    new = StackText(text).with_value((*_TEAMS, "speech", "quota", "l4"), 4)
    assert new.replace("\r\n", "\n").count("\n") == new.count("\r\n") == text.count("\r\n") + 1


def test_the_end_of_the_file_needs_no_newline() -> None:
    text = "config:\n  a:\n    b: 1"
    assert StackText(text).with_value(("a", "c"), 2) == "config:\n  a:\n    b: 1\n    c: 2"


@pytest.mark.parametrize(
    "text",
    [
        "config:\n  a: &x {b: 1}\n  c: *x\n",
        "config:\n  d: &x {b: 1}\n  a: {<<: *x}\n",
        "config:\n  a: all\n",
        "config:\n  a:\n",
        "config:\n  a: [1]\n",
        "config:\n  a: {b: {}}\n",
    ],
)
def test_what_has_no_place_of_its_own_is_not_changed(text: str) -> None:
    with pytest.raises(EditError, match="cannot be changed in place"):
        StackText(text).with_value(("a", "b"), 2)


def test_what_another_file_writes_is_not_there() -> None:
    assert StackText(_TEXT).has((*_TEAMS, "vision"))
    assert not StackText(_TEXT).has((*_TEAMS, "other"))


_KEYS = st.sampled_from(["a", "b", "c"])
_TREES = st.recursive(
    st.integers(0, 99), lambda below: st.dictionaries(_KEYS, below, max_size=3), max_leaves=8
).filter(lambda tree: isinstance(tree, dict))


@given(tree=_TREES, path=st.lists(_KEYS, min_size=1, max_size=3), flow=st.sampled_from([True, False, None]))
def test_only_the_value_at_the_path_changes(
    tree: dict[str, object], path: list[str], flow: bool | None
) -> None:
    text = yaml.safe_dump({"config": tree}, default_flow_style=flow)
    try:
        new = StackText(text).with_value(path, 123)
    except EditError:
        return
    expected = yaml.safe_load(text)
    place = expected["config"]
    for key in path[:-1]:
        place = place.setdefault(key, {})
    place[path[-1]] = 123
    assert yaml.safe_load(new) == expected
