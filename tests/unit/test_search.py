"""The short form of `python -m tests.search`, and that it notices what it is there to notice."""

import subprocess
import sys

import pytest

from tests.budget import ROOT
from tests.search.__main__ import test_of as text_of_test
from tests.search.planted import planted
from tests.search.scenes import STARTS
from tests.search.space import Violation, explore, replay


@pytest.mark.parametrize("name", STARTS)
def test_where_everyone_does_what_is_due_both_gangs_come_to_their_end(name: str) -> None:
    STARTS[name]().judge()


def test_two_gangs_keep_every_rule_wherever_one_thing_departs_from_that() -> None:
    progress = explore(STARTS["kueue-requests"](), seconds=600, departures=0)
    assert not progress.violations
    assert progress.departures == 0


def test_a_mistake_in_the_decision_code_is_printed_as_a_test_that_replays_it() -> None:
    command = (sys.executable, "-m", "tests.search", "kueue-requests", "--departures", "0")
    done = subprocess.run(
        (*command, "--planted-as", "finished-keeps-all"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "pays for nothing" in done.stdout
    assert "def test_kueue_requests_keeps_its_rules() -> None:" in done.stdout


def test_every_planted_mistake_is_still_one() -> None:
    """Each finds what it replaces, once; the search of all of them runs by night."""
    assert len(planted()) >= 30


def test_a_step_that_cannot_happen_any_more_is_named_with_those_that_can() -> None:
    start = STARTS["kueue-requests"]()
    state = replay(start, ["kueue a", "reconcile a 1/2"])
    assert "reconcile a 1/1" in {name for name, _, _ in state.steps()}
    with pytest.raises(LookupError, match="kueue a"):
        replay(start, ["cloud"])


def test_the_printed_test_names_world_rule_and_steps() -> None:
    text = text_of_test("kueue-requests", Violation(("kueue a", 'node "x" dies'), "half a gang"))
    compile(text, "replayed", "exec")
    assert '"kueue a",' in text
    assert "# half a gang" in text


def test_a_gang_of_kai_that_loses_a_node_while_its_pods_pass_comes_to_an_end() -> None:
    """A schedule that the search found: an end that was noted before was taken for that of this try."""
    steps = ("kuberay", "reconcile a 2/2", "reconcile a 1/1", "reconcile b 1/1", "kai", "cloud")
    passed = (
        "reconcile a 2/2",
        "cloud",
        "reconcile b 2/2",
        "cloud",
        "reconcile a 2/2",
        "reconcile b 2/2",
        "kai",
    )
    state = replay(STARTS["kai-requests"](), (*steps, *passed))
    *_, dies = (name for name, _, _ in state.steps() if name.startswith("node ") and name.endswith(" dies"))
    replay(state, [dies, "kuberay"])
