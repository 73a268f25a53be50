"""Two managers at a time, by mistake or after a pause: nothing is asked for twice."""

from dataclasses import dataclass
from typing import Any

from muster.model import names
from tests.envtest.process import free_port
from tests.faults import health
from tests.faults.breaks import Break, Call, Calm, Fault
from tests.faults.managers import Manager
from tests.faults.proxy import Proxy
from tests.faults.stage import Stage

_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/leases/gang-admission"


@dataclass(frozen=True, slots=True)
class _Late(Calm):
    """Whoever meets this hears of everything late, or of one kind later than of the others, and acts on what
    was.
    """

    seconds: float = 0.4
    only: str = ""

    def judge(self, call: Call) -> Break | None:
        is_late = call.verb == "watch" and self.only in ("", call.resource)
        return Break(Fault.DELAY, seconds=self.seconds) if is_late else None


def test_who_sees_a_gang_as_it_was_before_it_had_quota_takes_nothing_from_it(stage: Stage) -> None:
    """As far as it knows the gang may have no requests, and it sees two: it looks again before it deletes."""
    port = free_port()
    with Proxy(stage.plane.server, plan=_Late(seconds=1.5, only="workloads")).serving() as past:
        config = stage.plane.manager_kubeconfig(past.url)
        late = Manager(config, stage.folder / "late.log", identity="late", health_port=port)
        with stage.manager().kept(), late.kept():
            stage.eventually("the late one has begun to listen", lambda: health.is_ready(port))
            gang = stage.submit()
            stage.runs(gang)
            stage.eventually("the late one has heard of it", lambda: _running(port) == 1)
            assert stage.stands(gang)
            assert not [call for call in past.calls if call.verb == "delete"]
            stage.end(gang)
            stage.judge()
        assert late.exits == []


def _running(port: int) -> float:
    """How many gangs that run it knows of."""
    return health.counted(port, "muster_gangs", state="running")


def test_two_replicas_without_election_of_which_one_lives_in_the_past_ask_once(stage: Stage) -> None:
    port = free_port()
    with Proxy(stage.plane.server, plan=_Late()).serving() as past:
        config = stage.plane.manager_kubeconfig(past.url)
        late = Manager(config, stage.folder / "late.log", identity="late", health_port=port)
        with stage.manager().kept() as prompt, late.kept():
            stage.eventually("the late one has begun to listen", lambda: health.is_ready(port))
            stage.plane.fault("out", pool="l4", kind="stock-out", count=1)
            gangs = [stage.submit() for _ in range(3)]
            stage.completes(*gangs)
        assert past.writes, "both have worked"
        assert prompt.exits == late.exits == []


@dataclass(slots=True)
class _SlowWrite(Calm):
    """The first write takes long enough for its sender to be stopped meanwhile."""

    is_met: bool = False

    def judge(self, call: Call) -> Break | None:
        if self.is_met or not call.writes:
            return None
        self.is_met = True
        return Break(Fault.DELAY, seconds=2.0)


def test_a_leader_that_was_stopped_for_longer_than_its_lease_writes_nothing_and_ends(stage: Stage) -> None:
    """And the one who took over finishes."""
    with Proxy(stage.plane.server).serving() as other:
        second = Manager(
            stage.plane.manager_kubeconfig(other.url),
            stage.folder / "second.log",
            identity="second",
            elects=True,
        )
        first = stage.manager(identity="first", elects=True)
        first.start()
        stage.eventually("the first leads", lambda: _holder(stage) == "first")
        try:
            with second.kept():
                # While it waits for an answer: one write that is on its way when it stops arrives
                # whatever it decides, and the next must not follow.
                stage.proxy.plan = slow = _SlowWrite()
                gang = stage.submit()
                stage.eventually("the first has begun to ask", lambda: slow.is_met)
                first.freeze()
                stage.eventually("the second leads", lambda: _holder(stage) == "second")
                written = len(stage.proxy.writes)
                first.thaw()
                stage.eventually("the first has ended", lambda: not first.is_alive)
                assert first.exit_code == 1
                assert len(stage.proxy.writes) == written, "not one write after the pause"
                stage.completes(gang)
        finally:
            first.thaw()
            first.end()
            stage.plane.server.call("DELETE", _LEASE)


def _holder(stage: Stage) -> Any:
    return stage.plane.server.call("GET", _LEASE)["spec"].get("holderIdentity")
