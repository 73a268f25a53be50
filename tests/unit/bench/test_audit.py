"""What the bench reads from an API server's audit log, line by line."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from bench.gangs import figures
from bench.gangs.audit import Call, calls
from bench.gangs.figures import Agent, Latency
from bench.gangs.timeline import Moment, Timeline, asker, timelines

_TEAM = "team-a"


def _at(second: float) -> datetime:
    return datetime.fromtimestamp(1_700_000_000 + second, UTC)


def _line(verb: str, resource: str, name: str, *, at: float = 0.0, **more: Any) -> bytes:
    plural, _, sub = resource.partition("/")
    event = {
        "kind": "Event",
        "stage": more.get("stage", "ResponseComplete"),
        "verb": verb,
        "userAgent": more.get("agent", "kueue/v0.19.2 (linux/amd64) abcd012"),
        "objectRef": {"resource": plural, "namespace": _TEAM, "subresource": sub, "name": name},
        "responseStatus": {"code": more.get("code", 200)},
        "stageTimestamp": _at(at).isoformat().replace("+00:00", "Z"),
    }
    if "body" in more:
        event["requestObject"] = more["body"]
    return json.dumps(event).encode() + b"\n"


def _condition(kind: str, status: str = "True") -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind, "status": status}]}}


def _entry(state: str) -> dict[str, Any]:
    return {"status": {"admissionChecks": [{"name": "gang", "state": state}]}}


def _requested(name: str, meta: dict[str, Any], at: float) -> bytes:
    body = {"metadata": {"name": name, **meta}}
    return _line("create", "provisioningrequests", "", at=at, code=201, body=body)


_OURS = {"annotations": {"muster.dev/workload": "g"}}
_KUEUES = {"ownerReferences": [{"kind": "Workload", "name": "g"}]}


def _life(meta: dict[str, Any]) -> list[bytes]:
    """From creation to admission, with a second that fails and one that repeats."""
    return [
        _line("create", "workloads", "g", at=0, code=201, body={"metadata": {"name": "g"}}),
        _line("patch", "workloads/status", "g", at=0.5, code=409, body=_condition("QuotaReserved")),
        _line("patch", "workloads/status", "g", at=1, body=_condition("QuotaReserved")),
        _line("patch", "workloads/status", "g", at=1.5, body=_condition("QuotaReserved")),
        _requested("r", meta, at=1.25),
        _line("patch", "provisioningrequests/status", "r", at=3, body=_condition("Provisioned")),
        _line("patch", "workloads/status", "g", at=2, body=_entry("Pending")),
        _line("patch", "workloads/status", "g", at=3.5, body=_entry("Ready")),
        _line("patch", "workloads/status", "g", at=4, body=_condition("Admitted")),
    ]


@pytest.mark.parametrize("meta", [_OURS, _KUEUES], ids=["ours", "Kueue's"])
def test_a_gangs_history_is_read_from_accepted_writes_of_either_controller(meta: dict[str, Any]) -> None:
    found = timelines(calls(_life(meta)))
    moments = [(at.timestamp() - 1_700_000_000, each) for at, each in found[_TEAM, "g"].moments]
    assert moments == [
        (0, Moment.CREATED),
        (1, Moment.RESERVED),
        (1.25, Moment.REQUESTED),
        (3, Moment.PROVISIONED),
        (3.5, Moment.READY),
        (4, Moment.ADMITTED),
    ]


def test_latency_and_throughput_come_from_the_servers_own_times() -> None:
    found = timelines(calls(_life(_OURS)))
    assert figures.latency(found, Moment.RESERVED, Moment.REQUESTED) == Latency(0.25, 0.25, 1)
    assert figures.latency(found, Moment.PROVISIONED, Moment.READY) == Latency(0.5, 0.5, 1)
    assert figures.latency(found, Moment.ADMITTED, Moment.FINISHED) is None
    assert figures.throughput(found) == pytest.approx(1 / 4)


def test_a_log_that_is_cut_off_is_read_as_far_as_it_goes() -> None:
    whole = _line("get", "workloads", "g")
    assert len(list(calls([whole, whole[:40]]))) == 1


def test_only_answered_calls_count_and_each_once() -> None:
    lines = [
        _line("get", "nodes", "n", stage="RequestReceived"),
        _line("get", "nodes", "n"),
        _line("patch", "workloads/status", "g", body=_condition("Admitted")),
        _line("patch", "workloads/status", "g", code=409, body=_condition("Admitted")),
        _line("delete", "provisioningrequests", "r", agent="muster-manager"),
        _line("create", "workloads", "g", agent="localplane-autoscaler", body={"metadata": {}}),
    ]
    sent = len(json.dumps(_condition("Admitted")))
    assert figures.agents(calls(lines)) == {
        "kueue": Agent(calls=3, writes=2, refused=1, sent=2 * sent),
        "muster-manager": Agent(calls=1, writes=1, refused=0, sent=0),
    }


def test_a_name_that_is_only_in_the_body_is_read_there() -> None:
    (call,) = calls([_requested("r", _OURS, at=0)])
    assert (call.name, asker(call.body["metadata"])) == ("r", "g")


def _timeline(*moments: tuple[float, Moment]) -> Timeline:
    timeline = Timeline()
    for second, moment in moments:
        timeline.note(_at(second), moment)
    return timeline


def test_quota_is_lost_to_a_stocked_out_gang_only_while_a_runnable_one_waits() -> None:
    gangs = {
        (_TEAM, "out"): _timeline(
            (0, Moment.CREATED), (1, Moment.RESERVED), (6, Moment.LOST), (20, Moment.RESERVED)
        ),
        (_TEAM, "first"): _timeline((0, Moment.CREATED), (2, Moment.RESERVED), (8, Moment.FINISHED)),
        (_TEAM, "second"): _timeline((0, Moment.CREATED), (10, Moment.RESERVED), (25, Moment.FINISHED)),
    }
    # Of 25 s with two slots it held 1 to 6; from second 10 on nobody waited.
    assert figures.lost_share(gangs, stocked_out=[(_TEAM, "out")], slots=2) == pytest.approx(5 / 50)


def test_quota_that_no_gang_waits_for_is_not_lost() -> None:
    gangs = {
        (_TEAM, "out"): _timeline((0, Moment.CREATED), (0, Moment.RESERVED)),
        (_TEAM, "first"): _timeline((1, Moment.CREATED), (2, Moment.RESERVED), (6, Moment.FINISHED)),
        (_TEAM, "second"): _timeline((4, Moment.CREATED), (7, Moment.RESERVED), (11, Moment.FINISHED)),
        (_TEAM, "third"): _timeline((5, Moment.CREATED), (6, Moment.RESERVED), (11, Moment.FINISHED)),
    }
    # From 1 to 2 and from 4 to 7 somebody waits, and where two do it is the same second.
    assert figures.lost_share(gangs, stocked_out=[(_TEAM, "out")], slots=2) == pytest.approx(4 / 20)


def test_a_retry_is_a_request_that_failed_after_another_one_of_the_gang_had() -> None:
    lines = [_line("create", "workloads", each, code=201, body={"metadata": {"name": each}}) for each in "gh"]
    for second, (name, owner) in enumerate([("r-1", "g"), ("r-2", "g"), ("r-3", "g"), ("s-1", "h")]):
        at, meta = 10.0 * second, {"annotations": {"muster.dev/workload": owner}}
        lines += [
            _line("patch", "workloads/status", owner, at=at + 1, body=_condition("QuotaReserved")),
            _requested(name, meta, at=at + 2),
            _line("patch", "provisioningrequests/status", name, at=at + 3, body=_condition("Failed")),
            _line("patch", "provisioningrequests/status", name, at=at + 4, body=_condition("Failed")),
            _line("patch", "workloads/status", owner, at=at + 5, body=_condition("QuotaReserved", "False")),
        ]
    assert figures.retries(timelines(calls(lines))) == 2


def test_a_reservation_that_was_never_lost_lasts_to_the_end_and_a_repeated_one_is_one() -> None:
    timeline = _timeline((1, Moment.LOST), (2, Moment.RESERVED), (3, Moment.RESERVED), (5, Moment.LOST))
    timeline.note(_at(7), Moment.RESERVED)
    assert list(timeline.holding(_at(9))) == [(_at(2), _at(5)), (_at(7), _at(9))]


def _preempted(meta: dict[str, Any]) -> list[bytes]:
    """Its first life, whose nodes come when its quota is lost already, and 200 s later a second one."""
    first = [
        _line("create", "workloads", "g", at=0, code=201, body={"metadata": {"name": "g"}}),
        _line("patch", "workloads/status", "g", at=1, body=_condition("QuotaReserved")),
        _requested("r-1", meta, at=1.5),
        _line("patch", "workloads/status", "g", at=2, body=_condition("QuotaReserved", "False")),
        _line("patch", "provisioningrequests/status", "r-1", at=2.5, body=_condition("Provisioned")),
    ]
    second = [
        _line("patch", "workloads/status", "g", at=200, body=_condition("QuotaReserved")),
        _line("patch", "provisioningrequests/status", "r-1", at=200.25, body=_condition("Provisioned")),
        _requested("r-2", meta, at=201),
        _line("patch", "provisioningrequests/status", "r-2", at=202, body=_condition("Provisioned")),
        _line("patch", "workloads/status", "g", at=202.25, body=_entry("Ready")),
        _line("patch", "workloads/status", "g", at=203, body=_condition("Admitted")),
    ]
    return first + second


@pytest.mark.parametrize("meta", [_OURS, _KUEUES], ids=["ours", "Kueue's"])
def test_a_latency_lies_within_one_reservation_and_each_reservation_gives_one(meta: dict[str, Any]) -> None:
    found = timelines(calls(_preempted(meta)))
    assert list(found[_TEAM, "g"].within(Moment.RESERVED, Moment.REQUESTED)) == [0.5, 1.0]
    assert list(found[_TEAM, "g"].within(Moment.PROVISIONED, Moment.READY)) == [0.25]
    assert figures.latency(found, Moment.RESERVED, Moment.REQUESTED) == Latency(0.5, 1.0, 2)
    assert figures.to_admission(found) == Latency(203, 203, 1)


def test_what_a_lost_reservation_began_does_not_end_in_the_next_one() -> None:
    timeline = _timeline(
        (0, Moment.CREATED),
        (1, Moment.RESERVED),
        (5, Moment.LOST),
        (200, Moment.RESERVED),
        (201, Moment.REQUESTED),
    )
    assert list(timeline.within(Moment.RESERVED, Moment.REQUESTED)) == [1]
    assert list(timeline.within(Moment.REQUESTED, Moment.PROVISIONED)) == []


def test_a_name_that_is_asked_for_again_is_answered_again() -> None:
    again = [line.replace(b"r-2", b"r-1") for line in _preempted(_KUEUES)]
    found = timelines(calls(again))
    assert list(found[_TEAM, "g"].within(Moment.PROVISIONED, Moment.READY)) == [0.25]


def test_percentiles_are_values_that_were_measured() -> None:
    assert figures.percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert figures.percentile(range(1, 101), 99) == 99
    assert figures.percentile([5.0], 99) == 5.0


def test_an_answer_without_an_object_is_no_call() -> None:
    assert (
        list(calls([b'{"stage":"ResponseComplete","verb":"get","stageTimestamp":"2026-01-01T00:00:00Z"}']))
        == []
    )
    assert isinstance(next(calls([_line("get", "nodes", "n")])), Call)
