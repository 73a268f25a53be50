"""What a gang depends on changes while it gathers: its quota, its policy, its place, its life."""

import threading
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from tests.faults import ending, gangs
from tests.faults.breaks import Break, Call
from tests.faults.plane import KUEUE, MERGE
from tests.faults.seeds import is_soak
from tests.faults.stage import Stage

_WRITES = range(1, 12) if is_soak() else (2, 5, 9)


@dataclass(slots=True)
class _At:
    """The plan: something happens between the manager's write `number` and its knowing of it. Set before the
    gang is submitted, or some of its writes go uncounted.
    """

    number: int
    happens: Callable[[], object]
    writes: int = 0
    has_happened: bool = False
    _due: Call | None = None

    def judge(self, call: Call) -> Break | None:
        if call.writes:
            self.writes += 1
            if self.writes == self.number:
                self._due = call
        return None

    def done(self, call: Call) -> None:
        """The server has answered. Until it has happened nothing passes the proxy, the answer neither."""
        if call is self._due:
            self._happen()

    def comes(self, *, if_not: Callable[[], object]) -> bool:
        """Whether it has happened by now; at the latest once `if_not`. A manager that was slow has had less
        to say, and so fewer writes.
        """
        if self._due is None and if_not():
            self.number = 0
            self._happen()
        return self.has_happened

    def _happen(self) -> None:
        self.happens()
        self.has_happened = True


@pytest.mark.parametrize("number", _WRITES)
def test_a_gang_deleted_at_any_write_leaves_nothing(stage: Stage, number: int) -> None:
    name = f"deleted-at-{number}"
    with stage.manager().kept():
        stage.proxy.plan = plan = _At(number, partial(gangs.end, stage.plane, name))
        gangs.submit(stage.plane, name)
        runs = partial(stage.stands, name)
        stage.eventually("its end has come", lambda: plan.comes(if_not=runs))
        stage.eventually("it is gone", lambda: gangs.read(stage.plane, name) is None)
        stage.eventually("with all that it had", lambda: not ending.leftovers(stage.plane))
        # Of that name there is another one at once.
        gangs.submit(stage.plane, name)
        stage.completes(name)


@pytest.mark.parametrize("number", _WRITES)
def test_a_gang_preempted_at_any_write_gives_way_and_comes_back_with_new_requests(
    stage: Stage, number: int
) -> None:
    team = "team-b"
    low, high = f"preempted-at-{number}", f"preempts-at-{number}"

    old: set[str] = set()

    def preempted() -> None:
        old.update(gangs.uids(stage.plane, team))
        gangs.submit(stage.plane, high, team=team, priority="prod")
        stage.eventually("it has to go", lambda: gangs.holds(gangs.read(stage.plane, low, team), "Evicted"))

    with stage.manager().kept():
        stage.proxy.plan = plan = _At(number, preempted)
        gangs.submit(stage.plane, low, team=team, priority="dev")
        runs = partial(stage.stands, low, team)
        stage.eventually("the second comes", lambda: plan.comes(if_not=runs))
        stage.runs(high, team=team)
        stage.eventually("the first has lost its place", lambda: not _reserved(stage, low, team))
        stage.eventually("and all that it had", lambda: not old & gangs.uids(stage.plane, team))
        stage.end(high, team=team)
        stage.runs(low, team=team)
        assert not old & gangs.uids(stage.plane, team)
        stage.end(low, team=team)
        stage.judge()


def _reserved(stage: Stage, name: str, team: str) -> bool:
    return gangs.holds(gangs.read(stage.plane, name, team), "QuotaReserved")


def test_a_queue_that_is_drained_and_opened_again_starts_its_gangs_anew(stage: Stage) -> None:
    with stage.manager().kept():
        gang = stage.submit()
        stage.eventually("it has asked", lambda: gangs.requests(stage.plane))
        with _stopped(stage, "HoldAndDrain"):
            stage.eventually("it holds nothing", lambda: not gangs.requests(stage.plane))
            stage.eventually("nor its quota", lambda: not _reserved(stage, gang, gangs.TEAM))
        stage.completes(gang)


def test_a_reservation_that_came_while_nobody_looked_stands_on_requests_of_its_own(stage: Stage) -> None:
    """Its quota went and came back while the manager was away: what was promised before is not its own."""
    stage.plane.fault("silent", pool="l4", kind="silence")
    first = stage.manager()
    first.start()
    gang = stage.submit()
    promised = partial(gangs.requests, stage.plane)
    stage.eventually("half is promised", lambda: any(gangs.holds(each, "Provisioned") for each in promised()))
    first.kill()
    old = gangs.uids(stage.plane)
    # Kueue counts no eviction here, and its time stamps hold whole seconds: within one, nothing tells the two
    # reservations apart.
    since = gangs.since(stage.plane, gang, "QuotaReserved")
    stage.eventually("that second is over", lambda: datetime.now(UTC) >= since + timedelta(seconds=1))
    with _stopped(stage, "HoldAndDrain"):
        stage.eventually("it has lost its quota", lambda: not _reserved(stage, gang, gangs.TEAM))
    stage.eventually("and has some again", lambda: _reserved(stage, gang, gangs.TEAM))
    stage.plane.mend()
    with stage.manager().kept():
        stage.runs(gang)
        assert not old & gangs.uids(stage.plane)
        stage.end(gang)
        stage.judge()


@contextmanager
def _stopped(stage: Stage, how: str) -> Iterator[None]:
    path = f"{KUEUE}/clusterqueues/{gangs.TEAM}"
    stage.plane.server.call("PATCH", path, {"spec": {"stopPolicy": how}}, content_type=MERGE)
    try:
        yield
    finally:
        stage.plane.server.call("PATCH", path, {"spec": {"stopPolicy": "None"}}, content_type=MERGE)


def test_a_policy_that_changes_while_gangs_wait_replaces_what_they_asked_for(stage: Stage) -> None:
    stage.plane.fault("silent", pool="*", kind="silence")
    try:
        with stage.manager().kept():
            gang = stage.submit()
            (old,) = stage.eventually("it has asked", lambda: gangs.requests(stage.plane))
            flavors = [dict(each) for each in _flavors(stage)]
            for flavor in flavors:
                if flavor["provisioningClassName"]:
                    flavor["parameters"] = {**flavor["parameters"], "tier": "batch"}
            stage.plane.policy(flavors=flavors)
            new = stage.eventually("with the new parameters", partial(_asked_with, stage, "batch"))
            assert [each["metadata"]["uid"] for each in new] != [old["metadata"]["uid"]]
            stage.plane.policy()
            stage.plane.mend()
            stage.completes(gang)
    finally:
        stage.plane.policy()


def _flavors(stage: Stage) -> list[dict[str, Any]]:
    policy = stage.plane.server.call("GET", "/apis/muster.dev/v1alpha1/gangpolicies/default")
    return list(policy["spec"]["flavors"])


def _asked_with(stage: Stage, tier: str) -> list[dict[str, object]]:
    found = gangs.requests(stage.plane)
    return found if all(each["spec"]["parameters"].get("tier") == tier for each in found) else []


def test_somebody_who_writes_the_same_object_all_the_time_only_delays(stage: Stage) -> None:
    """Every write of ours may meet a newer version of its object."""
    with stage.manager().kept() as manager:
        stage.plane.fault("silent", pool="*", kind="silence")
        name = stage.submit()
        with _scribbling(stage, name) as scribbled:
            stage.eventually("it has been written over and over", lambda: len(scribbled) > 20)
            stage.plane.mend()
            stage.runs(name)
        stage.end(name)
        stage.judge()
    assert manager.exits == []


@contextmanager
def _scribbling(stage: Stage, name: str) -> Iterator[list[int]]:
    stopped, made = threading.Event(), list[int]()

    def scribble() -> None:
        while not stopped.wait(0.01):
            with suppress(urllib.error.URLError, OSError):
                gangs.patch(stage.plane, name, {"metadata": {"annotations": {"somebody": str(len(made))}}})
                made.append(1)

    thread = threading.Thread(target=scribble, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        stopped.set()
        thread.join(30)
