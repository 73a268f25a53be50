"""From trials to a table and a picture."""

from dataclasses import replace
from pathlib import Path

from bench.gangs import plot, results, table
from bench.gangs.figures import Agent, Latency
from bench.gangs.machine import Machine
from bench.gangs.results import Results
from bench.gangs.trial import Trial
from bench.gangs.usage import Usage

_TRIAL = Trial(
    case="burst-10",
    contender="builtin",
    gangs=10,
    admitted=10,
    seconds=2.0,
    throughput=5.0,
    to_request=Latency(0.1, 0.2),
    to_ready=None,
    to_admission=Latency(1.0, 2.0),
    lost_share=None,
    agents={"kueue": Agent(calls=100, writes=90, refused=1, sent=5000)},
    usage={"kueue": Usage(1.5, 100 * 2**20), "etcd": Usage(9.0, 2**30)},
    wire={"kueue": 10 * 2048},
    load_before=1.0,
    is_cut_short=False,
    when="2026-11-21",
)


def _results() -> Results:
    other = replace(_TRIAL, contender="muster", throughput=7.0)
    trials = [replace(_TRIAL, throughput=each) for each in (4.0, 5.0, 9.0)]
    return Results(Machine(2, 24, "a processor", "Debian", 0.5), "2026-11-21", [*trials, other])


def test_a_cell_is_the_median_and_the_spread_of_its_trials() -> None:
    text = table.markdown(_results())
    assert "| admitted, gangs/s | 5.0 (4.0 to 9.0) | 7.0 |" in text
    assert "| trials | 3 | 1 |" in text


def test_a_ratio_is_of_trials_of_one_round_and_of_those_that_came_to_their_end() -> None:
    found = _results()
    told = [("a", 4.0, 8.0), ("b", 5.0, 5.0), ("c", 10.0, 30.0), ("", 1.0, 100.0)]
    for name, theirs, ours in told:
        found.trials.append(replace(_TRIAL, case="pairs-10", throughput=theirs, round=name))
        ours_ = replace(_TRIAL, case="pairs-10", contender="muster", throughput=ours, round=name)
        found.trials.append(replace(ours_, usage={"kueue": Usage(3.0, 1)}))
    cut = replace(_TRIAL, case="pairs-10", contender="muster", throughput=900.0, round="d", is_cut_short=True)
    found.trials += [replace(_TRIAL, case="pairs-10", round="d"), cut]
    text = table.markdown(found).partition("## pairs-10")[2]
    assert "| admitted, ratio |  | 2.00 (1.00 to 3.00) |" in text
    assert "| CPU a gang, ratio |  | 2.00 |" in text
    assert "| rounds in the ratios |  | 3 |" in text
    assert "ratio |" not in table.markdown(_results())


def test_a_tuned_one_is_beside_the_tuned_built_in() -> None:
    found = _results()
    names = {"builtin": 1.0, "builtin-tuned": 5.0, "muster-tuned": 10.0}
    found.trials = [
        replace(_TRIAL, contender=name, throughput=each, round="a") for name, each in names.items()
    ]
    assert "| admitted, ratio |  |  | 2.00 |" in table.markdown(found)


def test_the_cost_of_a_cut_trial_is_left_out_with_a_note() -> None:
    found = _results()
    cut = replace(_TRIAL, case="cut-10", is_cut_short=True, admitted=1)
    found.trials = [cut, replace(cut, is_cut_short=False, admitted=10), replace(cut, contender="muster")]
    text = table.markdown(found)
    assert "| | built-in (1 of 2 cut short) | Muster (cut short) |" in text
    assert "| calls a gang | 10.0 |  |" in text
    assert "| CPU a gang, ms | 150 |  |" in text
    assert "| memory, peak, MiB | 100 | 100 |" in text


def test_a_percentile_has_its_sample_count_and_the_99th_of_few_is_the_maximum() -> None:
    def told(*counts: int) -> str:
        found = _results()
        found.trials = [replace(_TRIAL, to_request=Latency(0.1, 0.2, count)) for count in counts]
        return table.markdown(found)

    assert "| quota to request, p50 (n = 99), ms | 100 |" in told(99)
    assert "| quota to request, max (n = 99), ms | 200 |" in told(99)
    assert "| quota to request, p99 (n = 1,000), ms | 200 |" in told(1000)
    assert "| quota to request, max (n = 20 to 400), ms | 200 |" in told(400, 20)
    assert "| quota to request, p99, ms | 200 |" in told(0)


def test_the_first_and_the_last_trial_are_dated_and_every_build_is_named() -> None:
    found = _results()
    dates = [("2026-11-22 09:44", "1c6c7ce"), ("2026-11-21 23:09", ""), ("2026-11-22 09:51", "1c6c7ce+")]
    found.trials = [replace(_TRIAL, when=when, build=build) for when, build in dates]
    text = table.markdown(found)
    assert "| measured, UTC | 2026-11-21 23:09 to 2026-11-22 09:51 |" in text
    assert "| build | 1c6c7ce, not recorded, 1c6c7ce+ |" in text
    found.trials = [each for each in found.trials if each.build]
    assert "| measured, UTC | 2026-11-22 09:44 to 09:51 |" in table.markdown(found)


def test_costs_are_of_the_controllers_only_and_for_each_gang() -> None:
    text = table.markdown(_results())
    assert "| calls a gang | 10.0 | 10.0 |" in text
    assert "| CPU a gang, ms | 150 | 150 |" in text
    assert "| wire a gang, KiB | 2 | 2 |" in text
    assert "| memory, peak, MiB | 100 | 100 |" in text


def test_what_no_trial_of_a_case_has_is_no_row_of_it() -> None:
    assert "Provisioned to Ready" not in table.markdown(_results())
    assert "quota-time lost" not in table.markdown(_results())


def test_a_failed_trial_is_reported() -> None:
    found = _results()
    assert "count nowhere" not in table.markdown(found)
    found.failed.append("round 1 of 2, burst-10, muster: kube-apiserver: is not ready after 90 s")
    assert "count nowhere: 1." in table.markdown(found)


def test_results_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    before = _results()
    before.save(tmp_path / "results.json")
    assert results.load(tmp_path / "results.json") == before


def test_a_run_that_adds_takes_the_place_of_its_own_pairs_when_their_first_trial_is_there() -> None:
    found = _results()
    found.take(replace(_TRIAL, throughput=1.0, when="2026-11-22 08:00"), replaces=True)
    found.take(replace(_TRIAL, throughput=2.0, when="2026-11-22 08:01"), replaces=False)
    assert [each.throughput for each in found.of("burst-10", "builtin")] == [1.0, 2.0]
    assert [each.throughput for each in found.of("burst-10", "muster")] == [7.0]


def test_results_of_other_runs_are_put_together_and_each_keeps_its_day(tmp_path: Path) -> None:
    found, other = _results(), _results()
    other.when = "2026-11-20"
    undated = replace(_TRIAL, when="")
    other.trials = [replace(undated, case="burst-20"), replace(undated, contender="muster", throughput=8.0)]
    other.save(tmp_path / "other.json")
    found.merge(results.load(tmp_path / "other.json"))
    assert found.cases() == ["burst-10", "burst-20"]
    assert [each.throughput for each in found.of("burst-10", "muster")] == [8.0]
    assert "| measured, UTC | 2026-11-21 | 2026-11-20 |" in table.markdown(found)


def test_further_rounds_of_another_run_stand_beside_what_is_there() -> None:
    found, other = _results(), _results()
    other.trials = [replace(_TRIAL, contender="muster", throughput=8.0, when="2026-11-22 00:09")]
    found.merge(other, replaces=False)
    assert [each.throughput for each in found.of("burst-10", "muster")] == [7.0, 8.0]


def test_a_small_case_comes_before_a_large_one_of_its_kind() -> None:
    found = _results()
    wanted = ["burst-20", "burst-100", "cohorts-5x6x20", "cohorts-5x6x500", "steady-20"]
    found.trials = [replace(_TRIAL, case=case) for case in (*wanted[2:], "burst-100", "burst-20")]
    assert found.cases() == wanted


def test_the_same_results_give_the_same_picture(tmp_path: Path) -> None:
    for name in ("one", "other"):
        plot.draw(_results(), tmp_path / f"{name}.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()
    assert "burst-10" in (tmp_path / "one.svg").read_text()
