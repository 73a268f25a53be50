"""A trial of five gangs, whole: the figures are there, they are the log's, and nothing stays behind."""

import pytest

from bench.gangs import cases, trial
from bench.gangs.figures import KUEUE, OURS
from bench.gangs.stage import NEEDED
from bench.gangs.variants import ALL, Contender
from muster.model.stack import GangMode
from tests import built

_GANGS = 5


def test_a_gang_of_two_shapes_costs_five_calls_on_a_real_api_server() -> None:
    """Each template, each request, and that it is Ready; in each pool one is tried of pods that are alike."""
    (muster,) = (each for each in ALL if each.name == "muster")
    found = trial.run(cases.two_shapes(_GANGS), muster, built.programs(*NEEDED), on_progress=lambda _: None)
    assert (found.admitted, found.is_cut_short) == (_GANGS, False)
    assert found.agents[OURS].calls - found.agents[OURS].refused == 5 * _GANGS + 4


@pytest.mark.parametrize("contender", ALL[:2], ids=lambda each: each.name)
def test_either_check_admits_every_gang_and_all_of_it_is_accounted_for(contender: Contender) -> None:
    programs = built.programs(*NEEDED)
    progress: list[str] = []
    found = trial.run(cases.burst(_GANGS), contender, programs, on_progress=progress.append)

    assert (found.gangs, found.admitted, found.is_cut_short) == (_GANGS, _GANGS, False)
    assert "0 left" in progress
    for latency in (found.to_request, found.to_ready, found.to_admission):
        assert latency is not None
        assert 0 < latency.p50 <= latency.p99 <= found.seconds
    assert found.lost_share is None
    asks = OURS if contender.mode is GangMode.MUSTER else KUEUE
    # A template, a request and an answer for each gang; the built-in check writes more.
    assert found.agents[asks].writes >= 3 * _GANGS
    if asks == OURS:
        assert found.agents[asks].calls - found.agents[asks].refused == 3 * _GANGS + 2
    assert set(found.agents) == {KUEUE, asks}
    assert all(each.calls >= each.writes > 0 for each in found.agents.values())
    assert all(each.peak > 2**20 for each in found.usage.values())
    assert {"etcd", "kube-apiserver", "kueue"} <= set(found.usage)
