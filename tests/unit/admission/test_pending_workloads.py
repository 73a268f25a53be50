"""Workloads kept whole: what the watch has just brought needs no call, and nothing older is ever used."""

from typing import Any

import msgspec

from muster.controller.kueue.objects import Workload
from muster.controller.kueue.pending_workloads import PendingWorkloads

_QUOTA = {"type": "QuotaReserved", "status": "True"}
_ADMITTED = {"type": "Admitted", "status": "True"}


def _body(
    *conditions: dict[str, str],
    uid: str = "u",
    generation: int = 1,
    image: str = "a",
    deletion_timestamp: str | None = None,
) -> msgspec.Raw:
    template = {"spec": {"containers": [{"image": image}]}}
    body: dict[str, Any] = {
        "metadata": {"uid": uid, "generation": generation, "deletionTimestamp": deletion_timestamp},
        "spec": {"podSets": [{"name": "main", "template": template}]},
        "status": {"conditions": list(conditions)},
    }
    return msgspec.Raw(msgspec.json.encode(body))


def _workload(body: msgspec.Raw) -> Workload:
    return msgspec.json.decode(body, type=Workload)


def _told(recent: PendingWorkloads, body: msgspec.Raw) -> Workload:
    recent.on_event(_workload(body), body)
    return _workload(body)


def _image(recent: PendingWorkloads, workload: Workload) -> str | None:
    whole = recent.whole(workload)
    return str(whole.spec.pod_sets[0].template["spec"]["containers"][0]["image"]) if whole else None


def test_what_is_nested_deeper_than_python_goes_is_kept_too() -> None:
    recent, plain = PendingWorkloads(), _body(_QUOTA)
    deep = b'{"managed":' + b"[" * 9990 + b"]" * 9990 + b"," + bytes(plain)[1:]
    recent.on_event(_workload(plain), msgspec.Raw(deep))
    assert _image(recent, _workload(plain)) == "a"


def test_what_has_no_quota_or_has_started_takes_no_room() -> None:
    recent = PendingWorkloads()
    leaving = _body(_QUOTA, deletion_timestamp="2026-01-01T00:00:00Z")
    for body in (_body(), _body(_QUOTA, _ADMITTED), leaving):
        _told(recent, _body(_QUOTA))
        assert _image(recent, _told(recent, body)) is None


def test_a_template_of_another_spec_is_never_used() -> None:
    recent = PendingWorkloads()
    _told(recent, _body(_QUOTA))
    later = _workload(_body(_QUOTA, generation=2))
    assert _image(recent, later) is None
    assert _image(recent, _told(recent, _body(_QUOTA, generation=2, image="b"))) == "b"


def test_a_template_of_a_namesake_is_never_used() -> None:
    recent = PendingWorkloads()
    _told(recent, _body(_QUOTA))
    assert _image(recent, _workload(_body(_QUOTA, uid="v"))) is None


def test_the_oldest_give_way_when_the_room_is_full() -> None:
    bodies = [_body(_QUOTA, uid=uid) for uid in "abc"]
    recent = PendingWorkloads(max_bytes=2 * len(bytes(bodies[0])))
    gangs = [_told(recent, body) for body in bodies]
    assert [_image(recent, gang) for gang in gangs] == [None, "a", "a"]
    _told(recent, _body(uid="b"))
    gangs.append(_told(recent, _body(_QUOTA, uid="d")))
    assert [_image(recent, gang) for gang in gangs] == [None, None, "a", "a"]


def test_what_is_larger_than_the_room_is_not_kept() -> None:
    recent = PendingWorkloads(max_bytes=10)
    assert _image(recent, _told(recent, _body(_QUOTA))) is None
