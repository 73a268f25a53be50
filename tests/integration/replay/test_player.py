"""The player: Kueue's own scheduler in logical time. What is expected here is worked out by hand from Kueue's
documentation, but for the digest, which pins the decisions of this version.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from muster.errors import ExitCode
from muster.model import names
from muster.replay.player import Entry, Playback, PlayerError, World, play
from muster.replay.recording import Run
from tests.integration.killed import ends_with_its_caller

_START: Final = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
_RECLAIMING: Final = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
# Of Kueue v0.19.2. A new version that changes it changes decisions, or the order of equal ones: compare both
# versions on a recording before it is replaced.
_DIGEST: Final = "4994293edf42832a055e8547b44458308dc5e8ce4b786cc53f288c78f8fe82f7"


def queue(team: str, gpus: int, **more: Any) -> list[dict[str, Any]]:
    """A team's namespace, ClusterQueue and LocalQueue."""
    api = {"apiVersion": names.KUEUE_API_VERSION}
    quota = {"name": "h100", "resources": [{"name": names.GPU_RESOURCE, "nominalQuota": str(gpus)}]}
    spec = {
        "cohortName": "all",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team}},
        "preemption": _RECLAIMING,
        "resourceGroups": [{"coveredResources": [names.GPU_RESOURCE], "flavors": [quota]}],
        **more,
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}},
        {**api, "kind": "ClusterQueue", "metadata": {"name": team}, "spec": spec},
        {
            **api,
            "kind": "LocalQueue",
            "metadata": {"name": "default", "namespace": team},
            "spec": {"clusterQueue": team},
        },
    ]


def world(*queues: list[dict[str, Any]], flavor: dict[str, Any] | None = None, **more: Any) -> World:
    found = {
        "apiVersion": names.KUEUE_API_VERSION,
        "kind": "ResourceFlavor",
        "metadata": {"name": "h100"},
        "spec": flavor or {},
    }
    return World(objects=[found, *(each for objects in queues for each in objects)], **more)


def entry(team: str, name: str, *, at: int, gpus: int, seconds: int | None = 100, priority: int = 0) -> Entry:
    container = {"name": "work", "image": "none", "resources": {"requests": {names.GPU_RESOURCE: str(gpus)}}}
    pods = {"containers": [container], "restartPolicy": "Never"}
    created = datetime.fromtimestamp(_START + at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    workload = {
        "metadata": {"name": name, "namespace": team, "creationTimestamp": created},
        "spec": {
            "queueName": "default",
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": pods}}],
        },
    }
    return Entry(workload=workload, seconds=seconds)


def held(team: str, name: str, *, gpus: int, seconds: int) -> Entry:
    """A job that runs when the play begins."""
    found = entry(team, name, at=0, gpus=gpus, seconds=seconds)
    since = found.workload["metadata"]["creationTimestamp"]
    usage = {"flavors": {names.GPU_RESOURCE: "h100"}, "resourceUsage": {names.GPU_RESOURCE: str(gpus)}}
    given = {"clusterQueue": team, "podSetAssignments": [{"name": "main", "count": 1, **usage}]}
    met = [
        {"type": kind, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": since}
        for kind in ("QuotaReserved", "Admitted")
    ]
    status = {"conditions": met, "admission": given}
    return replace(found, workload={**found.workload, "status": status}, at=_START)


def runs(played: Playback, job: str) -> list[tuple[float, float | None]]:
    """(start, end) of each run, in seconds since the first arrival."""
    return [
        (each.start - _START, None if each.end is None else each.end - _START) for each in played.runs[job]
    ]


def test_a_job_waits_for_quota_and_starts_a_second_after_it_is_free(program: Path) -> None:
    """Kueue collects for a second what it tries again."""
    entries = [entry("a", "first", at=0, gpus=4), entry("a", "second", at=10, gpus=4)]
    played = play(world(queue("a", 4)), entries, program=program)
    assert runs(played, "a/first") == [(0, 100)]
    assert runs(played, "a/second") == [(101, 201)]
    assert played.runs["a/first"][0].usage == {"h100": {names.GPU_RESOURCE: 4}}


def test_an_owner_takes_its_quota_back_and_the_borrower_starts_from_the_beginning(program: Path) -> None:
    entries = [entry("a", "borrower", at=0, gpus=8), entry("b", "owner", at=40, gpus=4)]
    played = play(world(queue("a", 4), queue("b", 4)), entries, program=program)
    first, second = played.runs["a/borrower"]
    assert (first.by, first.reason, first.is_evicted) == ("b/owner", "InCohortReclamation", True)
    assert runs(played, "a/borrower") == [(0, 40), (141, 241)]
    assert runs(played, "b/owner") == [(40, 140)]
    assert not second.is_evicted
    assert played.preemptions == 1


def test_a_job_holds_its_quota_while_its_nodes_come_and_runs_as_long_as_before(program: Path) -> None:
    first = replace(entry("a", "first", at=0, gpus=4), delays={"h100": 30, "l4": 900})
    entries = [first, entry("a", "second", at=10, gpus=4)]
    played = play(world(queue("a", 4)), entries, program=program)
    assert runs(played, "a/first") == [(0, 130)]
    assert played.runs["a/first"][0].begin == _START + 30
    assert runs(played, "a/second") == [(131, 231)]
    assert played.runs["a/second"][0].begin == _START + 131


def test_the_end_of_each_job_that_ran_before_the_play_lets_the_next_of_its_queue_start(program: Path) -> None:
    alone = [queue(team, 4, cohortName="") for team in ("a", "b")]
    entries = [
        held("a", "runs", gpus=4, seconds=100),
        held("b", "runs", gpus=4, seconds=300),
        entry("a", "waits", at=0, gpus=4),
        entry("b", "waits", at=0, gpus=4),
    ]
    played = play(world(*alone), entries, program=program)
    assert runs(played, "a/waits") == [(101, 201)]
    assert runs(played, "b/waits") == [(301, 401)]


def test_a_preemptor_waits_as_long_as_its_victim_takes_to_stop(program: Path) -> None:
    entries = [entry("a", "low", at=0, gpus=4), entry("a", "high", at=40, gpus=4, priority=10)]
    played = play(world(queue("a", 4), grace=30), entries, program=program)
    assert played.runs["a/low"][0].reason == "InClusterQueue"
    assert runs(played, "a/high") == [(70, 170)]
    assert runs(played, "a/low")[-1] == (171, 271)


def test_jobs_arrive_end_and_stop_within_a_second_in_their_order(program: Path) -> None:
    """To the millisecond, while the queue orders jobs by whole seconds, as on an API server."""
    first = replace(entry("a", "first", at=0, gpus=4, seconds=None), at=_START + 0.25, seconds=10.5)
    # Its creation is later, its name before, and neither counts while the quota is free.
    entries = [replace(entry("a", "early", at=10, gpus=4), at=_START + 11.5), first]
    played = play(world(queue("a", 4)), entries, program=program)
    assert runs(played, "a/first") == [(0.25, 10.75)]
    assert runs(played, "a/early") == [(11.5, 111.5)]


def test_a_job_has_its_own_time_to_stop(program: Path) -> None:
    low = replace(entry("a", "low", at=0, gpus=4), grace=2.5)
    entries = [low, entry("a", "high", at=40, gpus=4, priority=10)]
    played = play(world(queue("a", 4), grace=30), entries, program=program)
    assert runs(played, "a/high") == [(42.5, 142.5)]


def test_what_is_decided_as_it_was_recorded_ends_when_it_did(program: Path) -> None:
    """And what is decided at another time runs, or stops, for as long as is assumed."""
    low = Run(reserved=_START + 0.5, evicted=_START + 40.25, ended=_START + 43.0)
    high = Run(reserved=_START + 43.5, ended=_START + 144.75)
    entries = [
        replace(entry("a", "low", at=0, gpus=4), recorded=[low]),
        replace(entry("a", "high", at=40, gpus=4, priority=10), recorded=[high]),
    ]
    played = play(world(queue("a", 4), grace=30), entries, program=program)
    assert runs(played, "a/low")[0] == (0, 40)
    assert runs(played, "a/high") == [(43, 144.75)]
    early = [replace(each, at=_START + 20.0) if each.recorded == [high] else each for each in entries]
    played = play(world(queue("a", 4), grace=30), early, program=program)
    assert runs(played, "a/high") == [(50, 150)]


def test_a_decision_takes_its_time_and_what_happens_meanwhile_is_not_part_of_it(program: Path) -> None:
    entries = [
        replace(entry("a", "first", at=0, gpus=4), at=_START + 0.0),
        replace(entry("a", "urgent", at=0, gpus=4, priority=10), at=_START + 0.1),
    ]
    played = play(world(queue("a", 4), cycle=0.25), entries, program=program)
    assert runs(played, "a/first")[0] == (0.25, 0.5)
    # The second decision writes two Workloads, and Kueue rests for a millisecond after one that starts none.
    assert runs(played, "a/urgent")[0][0] == pytest.approx(1.001)


def test_a_strict_queue_holds_up_what_would_fit_behind_its_head(program: Path) -> None:
    entries = [
        entry("a", "runs", at=0, gpus=3),
        entry("a", "large", at=10, gpus=4),
        entry("a", "small", at=20, gpus=1),
    ]
    strict = play(world(queue("a", 4, queueingStrategy="StrictFIFO")), entries, program=program)
    assert runs(strict, "a/small") == [(200, 300)]
    assert runs(play(world(queue("a", 4)), entries, program=program), "a/small") == [(20, 120)]


def test_a_play_that_may_not_take_longer_ends_where_it_is(program: Path) -> None:
    entries = [entry("a", f"job-{number}", at=number, gpus=1) for number in range(500)]
    whole = play(world(queue("a", 4)), entries, program=program)
    cut = play(world(queue("a", 4), limit=0.001), entries, program=program)
    assert (whole.is_cut, cut.is_cut) == (False, True)
    assert cut.end < whole.end
    assert cut.admissions < whole.admissions


def test_what_fits_no_quota_never_starts_and_the_play_ends(program: Path) -> None:
    entries = [entry("a", "large", at=0, gpus=9), entry("a", "endless", at=0, gpus=4, seconds=None)]
    played = play(world(queue("a", 4)), entries, program=program)
    assert runs(played, "a/large") == []
    assert runs(played, "a/endless") == [(0, None)]


def test_a_cycle_gives_away_quota_that_a_victim_still_holds(program: Path) -> None:
    """A fault of this version: docs/upstream/kueue-quota-of-victims.md. When this fails, it was mended."""
    never = {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
    small = [f"small-{index}" for index in range(3)]
    queues = world(
        queue("owner", 4, preemption={"reclaimWithinCohort": "Any", "withinClusterQueue": "Never"}),
        queue("borrower", 0, preemption=never),
        *(queue(team, 1, preemption=never) for team in small),
        grace=30,
    )
    entries = [
        entry("owner", "runs", at=0, gpus=2),
        entry("borrower", "victim", at=1, gpus=5, seconds=1000),
        entry("owner", "large", at=50, gpus=3, seconds=1000, priority=10),
        *(entry(team, "job", at=60, gpus=1, seconds=1000) for team in small),
    ]
    played = play(queues, entries, program=program)
    assert runs(played, "borrower/victim")[0] == (1, 101)
    # It holds its five GPUs of seven until second 131, and all three jobs start at 101.
    assert [runs(played, f"{team}/job")[0][0] for team in small] == [101, 101, 101]
    assert runs(played, "owner/large") == [(131, 1131)]


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (world(queue("a", 4), flavor={"topologyName": "racks"}), "flavor h100 has a topology"),
        (world(queue("a", 4), config={"admissionFairSharing": {}}), "admission fair sharing"),
        (world(queue("a", 4, admissionChecksStrategy={"admissionChecks": []})), "admission checks"),
        (
            world(queue("a", 4), config={"featureGates": {"ConcurrentAdmission": True}}),
            "concurrent admission",
        ),
    ],
)
def test_what_it_would_play_wrongly_is_refused(refused: World, why: str, program: Path) -> None:
    with pytest.raises(PlayerError, match=why) as error:
        play(refused, [entry("a", "job", at=0, gpus=1)], program=program)
    assert error.value.exit_code is ExitCode.UNUSABLE


def _crowd() -> tuple[World, Sequence[Entry]]:
    """Four teams that ask for more than there is, with many arrivals in the same second."""
    dice = random.Random(7)
    entries = [
        entry(
            f"t{dice.randrange(4)}",
            f"job-{index}",
            at=index // 3 * 20,
            gpus=dice.choice((1, 1, 2, 4, 8)),
            seconds=dice.randrange(30, 1200),
            priority=dice.choice((0, 0, 10)),
        )
        for index in range(400)
    ]
    return world(*(queue(f"t{team}", 16) for team in range(4)), grace=10), entries


def test_the_same_jobs_get_the_same_decisions_each_time_and_those_of_this_version(program: Path) -> None:
    played = [play(*_crowd(), program=program) for _ in range(2)]
    assert played[0] == played[1]
    assert played[0].preemptions > 20
    assert played[0].digest == _DIGEST


def test_the_player_ends_when_its_caller_is_killed(program: Path) -> None:
    entries = [entry("a", f"job-{index}", at=0, gpus=1) for index in range(4000)]
    ends_with_its_caller(play, world(queue("a", 1)), entries, program=program)
