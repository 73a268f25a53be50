"""Which amounts of a stack file may change, and where they stand."""

import pytest

from muster.config.edit import StackText
from muster.preview.proposal.search import Key, Knob, Space, to_space
from tests.unit.model.model_stacks import parsed
from tests.unit.preview.preview_world import LAB

_TEXT = (
    LAB
    + """\
    research:
      departments:
        models:
          borrow: {l4: 4}
          quota: {l4: 1}
          teams:
            vision: {quota: {l4: 2}, lend: {l4: 1}}
            words: {quota: {l4: unlimited}, borrow: all, lend: none}
            detailed: {quota: {l4: {gpus: 1, cpu: 1}}}
            waiting: {}
"""
)


def _space(text: str = _TEXT) -> Space:
    return to_space(parsed(text), StackText(text))


def test_amounts_of_teams_and_departments_are_knobs_and_words_are_not() -> None:
    assert _space().values == {
        Knob(Key.QUOTA, "models", "l4"): 1,
        Knob(Key.BORROW, "models", "l4"): 4,
        Knob(Key.QUOTA, "vision", "l4"): 2,
        Knob(Key.BORROW, "vision", "l4"): 0,
        Knob(Key.LEND, "vision", "l4"): 1,
        Knob(Key.QUOTA, "detailed", "l4"): 1,
        Knob(Key.BORROW, "detailed", "l4"): 0,
        Knob(Key.QUOTA, "waiting", "l4"): 0,
        Knob(Key.BORROW, "waiting", "l4"): 0,
    }


def test_what_the_quotas_leave_of_a_pool_is_free() -> None:
    space = _space()
    assert space.free("l4", space.values) == 8 - 1 - 2 - 1


def test_a_knob_is_where_the_file_writes_it() -> None:
    paths = _space().paths
    team = ("muster:departments", "research", "departments", "models", "teams", "detailed")
    assert paths[Knob(Key.QUOTA, "detailed", "l4")] == (*team, "quota", "l4", "gpus")
    assert paths[Knob(Key.BORROW, "detailed", "l4")] == (*team, "borrow", "l4")


def test_a_quota_that_cannot_be_changed_in_place_still_counts_against_the_pool() -> None:
    text = _TEXT.replace("{quota: {l4: 2}, lend: {l4: 1}}", "&one {quota: {l4: 2}}").replace(
        "waiting: {}", "waiting: *one"
    )
    space = _space(text)
    assert not any(knob.owner in ("vision", "waiting") for knob in space.values)
    assert space.free("l4", space.values) == 8 - 1 - 2 - 2 - 1


@pytest.mark.parametrize(("quotas", "step"), [((8, 16), 8), ((8, 12), 1)])
def test_amounts_change_by_whole_nodes_where_all_are_made_of_them(quotas: tuple[int, int], step: int) -> None:
    text = _TEXT[: _TEXT.index("    research:")].replace(
        "machine: local-l4, maxNodes: 8", "machine: g2-standard-96, gpusPerNode: 8, maxNodes: 8"
    )
    first, second = quotas
    text += f"    research: {{teams: {{a: {{quota: {{l4: {first}}}}}, b: {{quota: {{l4: {second}}}}}}}}}\n"
    assert _space(text).steps == {"l4": step}
