"""Half a virtual day of tenants and faults, and that the program notices what it is there to notice."""

import dataclasses
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from bench.virtual_days import __main__ as program
from bench.virtual_days import story as days
from bench.virtual_days.minutes import USED, Minutes
from bench.virtual_days.report import causes, memory_grows, summarize
from bench.virtual_days.service_levels import ServiceLevels
from bench.virtual_days.story import DAY, Day, Story
from bench.virtual_days.world import World
from muster.config import load
from muster.controller.gangs.objects import NODE, PROVISIONING_REQUEST
from muster.controller.gangs.taints import closed_for
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import Decision
from muster.controller.kueue.hooks import WorkloadHooks
from muster.controller.kueue.objects import WORKLOAD
from muster.model.names import GKE_LEASE_LABEL, POOL_LABEL
from muster.model.prices import BUILT_IN
from muster.model.stack import Scheduler
from muster.replay.moment import Tracker
from muster.replay.recording import Header, Ids, Job, Node, Recording
from muster.replay.sources import WORKLOADS, Workloads
from muster.replay.watch import NODES, REQUESTS, Kind, WithNodes
from muster.usage.bill import By, to_bill
from muster.usage.inputs import read_books
from muster.usage.ledger import Cause
from tests.unit.controller_runtime.virtual import virtual
from tests.unit.gangs.paper import START
from tests.unit.gangs.slow_api import moment

NOT_READY = " (not Ready)"
"""Nor is a node that is set aside."""


class ReadyMinutes(Minutes):
    """Keeps the same minutes a second time, apart for nodes that are Ready and those that are not."""

    def __init__(self, is_ready: Callable[[str], bool]) -> None:
        super().__init__()
        self.by_state, self._is_ready = Minutes(), is_ready

    def buy(self, node: str, cause: str, *, at: float) -> None:
        super().buy(node, cause, at=at)
        self.by_state.buy(node, self._state(node, cause), at=at)

    def turn(self, node: str, cause: str, *, at: float) -> None:
        super().turn(node, cause, at=at)
        self.by_state.turn(node, self._state(node, cause), at=at)

    def give_back(self, node: str, *, at: float) -> None:
        super().give_back(node, at=at)
        self.by_state.give_back(node, at=at)

    def _state(self, node: str, cause: str) -> str:
        return cause if self._is_ready(node) else cause + NOT_READY


class RecordedWorld(World):
    """Its Workloads, GPU nodes and requests go through the recorder's code as a watch would bring them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        ids = Ids(b"virtual")
        self.source = WithNodes(Workloads(Tracker(ids=ids, start=START.timestamp())), ids, (REQUESTS,))
        self.source.replace(REQUESTS, [], at=START.timestamp(), gone_at=START.timestamp())
        self.lines: dict[str, Job | Node] = {}
        self._created: dict[str, str] = {}
        super().__init__(*arguments, **options)
        self.minutes: ReadyMinutes = ReadyMinutes(self._is_ready)

    def start_controller(self) -> None:
        super().start_controller()
        self.server.caches[NODE].store.listen(self._node_changed)
        self.server.caches[WORKLOAD].store.listen(self._workload_observed)
        self.server.caches[PROVISIONING_REQUEST].store.listen(self._request_observed)

    def _is_ready(self, name: str) -> bool:
        node = self.cloud.node(name)
        return node is not None and node.status.holds("Ready") and not closed_for(node)

    def _node_changed(self, before: Any, after: Any) -> None:
        if (after or before).metadata.labels[POOL_LABEL] != "cpu":
            self._observe(NODES, before, after)
            if before is not None and after is not None:
                self._account(after.metadata.labels[GKE_LEASE_LABEL].removeprefix("lease-"))

    def _workload_observed(self, before: Any, after: Any) -> None:
        self._observe(WORKLOADS, before, after)

    def _request_observed(self, before: Any, after: Any) -> None:
        self._observe(REQUESTS, before, after)

    def _observe(self, kind: Kind, before: Any, after: Any) -> None:
        at = moment().timestamp()
        body = msgspec.json.decode(msgspec.json.encode(after or before))
        if kind is not WORKLOADS:
            created = self._created.setdefault((after or before).metadata.uid, moment().isoformat())
            body["metadata"]["creationTimestamp"] = created
        observed = msgspec.convert(body, kind.resource.type)
        if kind is WORKLOADS and (gang := self.gangs.get(observed.key)) is not None:
            # Defaults are not encoded, and pods of this world name no pool.
            assigned = observed.status.get("admission", {}).get("podSetAssignments", [])
            for pods, (name, (pool, count)) in zip(
                observed.spec["podSets"], gang.pieces.items(), strict=True
            ):
                pods |= {"name": name, "count": count}
                pods["template"]["spec"]["nodeSelector"] = {POOL_LABEL: pool}
            for pods, (name, (_, count)) in zip(assigned, gang.pieces.items(), strict=False):
                pods |= {"name": name, "count": count}
        change = self.source.remove if after is None else self.source.put
        self.lines |= {line.id: line for line in change(kind, observed, at=at)}

    def recording(self) -> Recording:
        lines = sorted(self.lines.values(), key=lambda line: line.created)
        start, end = START.timestamp(), moment().timestamp()
        return Recording(
            header=Header(
                scheduler=Scheduler.KUEUE, start=start, end=end, source="cluster", nodes_from=start
            ),
            jobs=tuple(line for line in lines if isinstance(line, Job)),
            nodes=tuple(line for line in lines if isinstance(line, Node)),
        )


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


RUNS = {USED, "its gang starts or lacks a node", "its gang runs and lacks a node"}
WAITS = {
    "the rest of its gang is not provisioned yet",
    "a node of its gang is not Ready",
    "its head has no place",
    "all nodes are there, and it is about to start",
    "the controller or the API server is down",
}


@pytest.fixture(scope="module")
def half_a_day() -> Iterator[tuple[Story, RecordedWorld, Recording]]:
    async def run() -> tuple[Story, RecordedWorld, Recording]:
        story = Story(seed=594380642, day=DAY / 2)
        world = await story.run(until=lambda days: days >= 1)
        assert isinstance(world, RecordedWorld)
        return story, world, world.recording()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(days, "World", RecordedWorld)
        yield virtual(run())


def test_after_half_a_day_of_faults_every_gang_has_ended_and_every_gpu_minute_has_a_cause(
    half_a_day: tuple[Story, RecordedWorld, Recording],
) -> None:
    story, world, _ = half_a_day
    assert world.ended["finished"] > 50
    assert {"controller killed", "node lost", "preemption", "pool out of stock"} <= story.happened.keys()
    assert not world.gangs
    assert not world.cloud.leases, "no node is left, and none is paid for"
    table = causes(story)
    assert "| used |" in table
    unused = story.minutes.unused()
    in_vain = unused.get("its head has no place", 0.0) + unused.get("a node of its gang is not Ready", 0.0)
    assert in_vain < 0.02 * story.minutes.bought / 60
    summary = summarize([story], failed={})
    assert summary.start_seconds is not None
    assert summary.quota_after_failure_seconds is not None
    assert summary.start_seconds.p99 < 2, "Kueue and the controller act at once"
    assert summary.start_seconds.count + summary.starts_on_taken_nodes <= world.starts
    assert summary.quota_after_failure_seconds.most < 60, "others have the quota of what failed"
    # A heap holds up to 64 deadlines that no longer count.
    left = {name: count for name, count in story.left.items() if name != "WorkQueue.heap"}
    assert max(left.values()) <= 16, f"what is over stays in memory: {left}"
    assert story.left["WorkQueue.heap"] <= 64


def test_the_bill_of_that_half_day_has_the_minutes_of_each_cause_that_its_own_books_have(
    half_a_day: tuple[Story, RecordedWorld, Recording],
) -> None:
    _, world, recording = half_a_day
    minutes = world.minutes.by_state
    books = read_books(recording, load(Path("stacks/Pulumi.local.yaml")), BUILT_IN, month=None)
    spent = {cause: 60 * hours for cause, hours in to_bill(books, By.TEAM).total.hours.items()}
    assert sum(spent.values()) == pytest.approx(minutes.bought / 60, rel=1e-3)
    kept: defaultdict[str, float] = defaultdict(float)
    for cause, seconds in minutes.by_cause.items():
        what = "runs" if cause in RUNS else "waits" if cause in WAITS else "idle"
        kept["not Ready" if cause.endswith(NOT_READY) else what] += seconds / 60
    assert spent[Cause.GATED] == pytest.approx(kept["waits"], rel=1e-4)
    assert spent[Cause.BROKEN] + spent[Cause.BOOTING] == pytest.approx(kept["not Ready"], rel=1e-4)
    # A gang may run on nodes that others gave back. The ledger does not see on which, nor that it loses one,
    # or that one is set aside.
    running = sum(spent[each] for each in (Cause.GUARANTEED, Cause.BORROWED, Cause.LENT, Cause.LOST))
    assert running == pytest.approx(kept["runs"], rel=2e-3)
    assert spent[Cause.IDLE] == pytest.approx(kept["idle"], abs=2e-3 * kept["runs"])
    assert Cause.UNKNOWN not in spent
    assert min(kept.values()) > 30, "the day has all of them"


def test_seconds_in_which_no_controller_can_act_are_no_seconds_of_a_start_or_of_quota() -> None:
    levels, gang = ServiceLevels(), Key("team-a", "gang")
    for at, acts in ((0, True), (10, False), (70, False), (100, True)):
        levels.turn(acts=acts, at=at)
    levels.fail(gang, at=20)
    levels.release(gang, at=101)
    levels.start([5, 8], at=103, takes_nodes=False)
    levels.start([110], at=150, takes_nodes=False)
    levels.turn(acts=False, at=200)
    levels.turn(acts=True, at=230)
    levels.start([40], at=240, takes_nodes=False)
    assert levels.starts == [5, 40, 110]
    assert levels.quota_after_failure == [1]


def test_a_gang_without_an_end_in_sight_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkloadHooks, "decide", lambda *_: Decision())
    with pytest.raises(AssertionError, match="its check names no deadline since"):
        virtual(Story(seed=2).run(until=lambda days: days >= 1))


def test_a_gpu_minute_without_a_cause_fails_the_run() -> None:
    minutes = Minutes()
    minutes.buy("a", "the rest of its gang is not provisioned yet", at=0)
    minutes.run("gang", 1, at=60)
    minutes.turn("a", USED, at=60)
    assert minutes.settled(at=120).unused() == {"the rest of its gang is not provisioned yet": 1.0}
    minutes.settled(at=120).check()
    minutes.turn("a", "idle", at=180)
    minutes.stop("gang", at=240)
    with pytest.raises(AssertionError, match="GPU-minutes have no cause"):
        minutes.settled(at=300).check()


def test_memory_that_grows_is_told_from_memory_that_varies() -> None:
    first = Day(
        number=1, live=1, finished=1, refused=0, starts=1, lives=1, objects=1, entries=1, rss_mib=60.0
    )
    flat = [dataclasses.replace(first, number=number, rss_mib=60 + number % 7) for number in range(40)]
    grown = [dataclasses.replace(first, number=number, rss_mib=60 + number) for number in range(40)]
    assert memory_grows(flat) == ""
    assert memory_grows(grown[:10]) == "", "too few days"
    assert memory_grows(grown).startswith("memory grows: ")


def test_of_drawn_seeds_the_one_that_fails_first_is_kept_until_it_passes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failing, tried = {7: 3, 8: 1}, list[int]()

    async def run(self: Story, *, until: Callable[[int], bool]) -> None:
        tried.append(self.seed)
        while not until(len(self.days)):
            if len(self.days) == failing.get(self.seed):
                raise AssertionError("a gang has no end")
            self.days.append(Day(len(self.days) + 1, 0, 0, 0, 0, 0, 0, 0, 60.0))

    monkeypatch.setattr(Story, "run", run)
    monkeypatch.setattr(program, "causes", lambda _: "")
    kept = tmp_path / "build" / "kept.json"
    five = program._until(5, None)
    failed, summary = program.run_seeds([7, 8, 9], until=five, kept=kept)
    assert failed == 1
    assert summary.days == {7: 3, 8: 1, 9: 5}
    assert summary.failed.keys() == {7, 8}
    assert json.loads(kept.read_text()) == {"seed": 8, "day": 2, "why": "AssertionError: a gang has no end"}
    tried.clear()
    failing.clear()
    assert program.run_seeds([10], until=five, kept=kept)[0] == 0
    assert tried == [8, 10], "what failed last is tried first"
    assert not kept.exists()
