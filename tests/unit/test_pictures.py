"""The pictures of the documentation show the code as it is."""

import re
from pathlib import Path
from typing import get_args

import pytest

from muster.controller.gangs.assembly import Step
from muster.controller.gangs.metrics import GangState
from muster.model.kueue.tree import to_tree
from muster.preview.compare.preemption import KueueRules
from tests.browser.pictures import SHOTS, is_current
from tests.pictures import quota
from tests.pictures.__main__ import PICTURES
from tests.pictures.walks import FINISHED, walk

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_current(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PICTURES[name](), (
        "draw it again: python -m tests.pictures docs/pictures"
    )


@pytest.mark.parametrize("name", SHOTS)
def test_the_picture_shows_the_page_as_it_is(name: str) -> None:
    assert is_current(FOLDER / name), "take it again: make pictures"


def test_every_picture_has_a_script() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*PICTURES, *SHOTS}


def test_the_life_of_a_gang_has_every_state_and_every_step() -> None:
    life = walk()
    assert life.states == {*GangState, FINISHED}
    assert {step for _, step in life.steps} == {step.__name__ for step in get_args(Step)}


def test_a_gang_starts_only_from_ready() -> None:
    into = {way.before for way in walk().ways if way.after == GangState.RUNNING}
    assert into == {GangState.READY}


def test_the_table_of_borrowing_is_what_the_model_computes() -> None:
    text = quota.PAGE.read_text(encoding="utf-8")
    table = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert [quota.Row(team, *map(int, figures)) for team, *figures in table] == quota.rows(
        to_tree(quota.stack())
    )


def test_the_evictions_of_borrowing_are_those_that_the_model_allows() -> None:
    rules = KueueRules.of(to_tree(quota.stack()))
    teams = sorted(rules.profiles)
    across = {
        one: {two for two in teams if two != one and quota.POOL in rules.rights(one, two)} for one in teams
    }
    assert across == {"speech": {"vision", "notebooks"}, "vision": {"notebooks"}, "notebooks": {"vision"}}
    assert {team for team in teams if rules.can_preempt_within(team)} == {"vision", "speech"}


def test_every_path_of_the_recipes_exists() -> None:
    root = FOLDER.parents[1]
    named = re.findall(r"`([a-z]+/[\w./-]+)`", (root / "docs" / "recipes.md").read_text(encoding="utf-8"))
    assert [path for path in named if not (root / path).exists()] == []
