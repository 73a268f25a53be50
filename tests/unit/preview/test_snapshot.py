"""A snapshot holds what decisions about queues depend on, and nothing private of a pod."""

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.errors import MusterError
from muster.kubernetes.client import Client
from muster.kubernetes.kubeconfig import Access
from muster.live.snapshot import (
    Snapshot,
    SnapshotError,
    State,
    fetch_snapshot,
    format_snapshot,
    kueue,
    load_snapshot,
    parse_snapshot,
)
from muster.model.stack import Scheduler
from tests.length import examples
from tests.unit.preview.http_world import Asked, Reply, listing, serving
from tests.unit.preview.snapshot_world import SECRET, cluster_queue, kai_lists, local_queue, workload

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def _cluster(asked: Asked) -> Reply:
    """An API server with 1,203 Workloads, served in pages as the real one does."""
    url = urlsplit(asked.path)
    query = {key: values[0] for key, values in parse_qs(url.query).items()}
    lists = {
        "clusterqueues": [cluster_queue()],
        "localqueues": [local_queue()],
        "workloads": [
            workload(f"w-{index}", state=("pending", "admitted", "finished")[index % 3])
            for index in range(1203)
        ],
    }
    found = lists.get(url.path.rpartition("/")[2])
    if found is None or "v1beta2" not in url.path:
        return Reply(404, {"message": "not found"})
    begin, size = int(query.get("continue") or 0), int(query["limit"])
    token = str(begin + size) if begin + size < len(found) else ""
    return Reply(body={"metadata": {"continue": token}, "items": found[begin : begin + size]})


@cache
def _taken() -> Snapshot:
    with serving(_cluster) as server:
        found = fetch_snapshot(Client(Access(server=server.url)), now=NOW)
        assert {each.method for each in server.asked} == {"GET"}
    return found


def test_all_pages_are_read_and_what_has_finished_is_left_out() -> None:
    """No environment, command, volume, image, annotation or message is in it."""
    found = _taken()
    assert SECRET not in format_snapshot(found)
    assert SECRET not in repr(found)
    assert len(found.workloads) == 802
    assert {each.state for each in found.workloads} == {State.PENDING, State.ADMITTED}
    assert found.local_queues[0].cluster_queue == "team-a"
    assert (found.scheduler, found.taken) == (Scheduler.KUEUE, NOW)


def test_a_workload_is_read_with_all_that_decides_where_it_fits() -> None:
    found = kueue.to_workload(workload(state="admitted"))
    assert found is not None
    assert (found.namespace, found.name, found.queue, found.cluster_queue) == (
        "team-a",
        "train",
        "default",
        "team-a",
    )
    assert (found.priority, found.priority_class, found.job and found.job.kind) == (100, "dev", "RayJob")
    assert found.created == datetime(2026, 11, 21, 9, tzinfo=UTC)
    assert found.since("Admitted") == datetime(2026, 11, 21, 10, tzinfo=UTC)
    shape = found.pod_sets[0]
    assert shape.requests == {"cpu": 1500, "memory": 2 * 1024**3, "nvidia.com/gpu": 1}
    assert shape.node_selector == {"muster.dev/pool": "l4"}
    assert shape.tolerations[0].operator == "Exists"
    assert (shape.flavors["nvidia.com/gpu"], shape.usage) == ("l4", {"cpu": 3000, "nvidia.com/gpu": 2})


def test_what_waits_outside_the_quota_is_not_pending() -> None:
    found = kueue.to_workload(workload(active=False))
    assert found is not None
    assert found.state is State.INACTIVE


def test_usage_counts_what_is_reserved() -> None:
    found = _taken()
    assert found.used("team-a", "l4", "nvidia.com/gpu") == 2
    assert found.used("team-a", "l4", "cpu") == 3000
    assert found.used("team-z", "l4", "cpu") == 0


def test_a_recorded_snapshot_is_the_one_that_was_taken() -> None:
    found = _taken()
    assert parse_snapshot(format_snapshot(found), source="x") == found
    assert format_snapshot(parse_snapshot(format_snapshot(found), source="x")) == format_snapshot(found)


def test_without_kueue_the_queues_and_the_work_of_kai_are_read() -> None:
    with serving(listing(kai_lists())) as server:
        found = fetch_snapshot(Client(Access(server=server.url)), now=NOW)
    assert found.scheduler is Scheduler.KAI
    assert found.used("q", "", "nvidia.com/gpu") == 3
    assert found.pod_groups is not None
    assert found.nodes is not None
    (group,), (node,) = found.pod_groups, found.nodes
    assert [(each.name, each.node, each.requests) for each in group.pods] == [
        ("bound", "n1", {"cpu": 1500, "nvidia.com/gpu": 1}),
        ("gated", "", {"cpu": 1500, "nvidia.com/gpu": 1}),
        ("picked", "n1", {"cpu": 1500, "nvidia.com/gpu": 1}),
    ]
    assert [each.gates for each in group.pods] == [(), ("muster.dev/gang",), ()]
    assert (group.queue, group.min_member, group.priority_class) == ("q", 3, "train")
    assert group.started == datetime(2026, 11, 21, 9, tzinfo=UTC)
    assert node.room == {"cpu": 7500, "nvidia.com/gpu": 8, "pods": 109}
    assert SECRET not in format_snapshot(found)
    assert parse_snapshot(format_snapshot(found), source="x") == found


def test_without_the_right_to_list_pods_the_queues_of_kai_are_read_all_the_same() -> None:
    answer = listing(kai_lists())

    def kai(asked: Asked) -> Reply:
        return Reply(403) if asked.path.partition("?")[0].endswith("/pods") else answer(asked)

    with serving(kai) as server:
        found = fetch_snapshot(Client(Access(server=server.url)), now=NOW)
    assert found.used("q", "", "nvidia.com/gpu") == 3
    assert found.pod_groups is None
    assert found.nodes is None


def test_a_cluster_without_queues_is_refused() -> None:
    with serving(lambda _: Reply(404)) as server, pytest.raises(MusterError, match="nor KAI's queues"):
        fetch_snapshot(Client(Access(server=server.url)))


def test_a_list_with_an_expired_token_is_read_again() -> None:
    replies = [
        Reply(body={"metadata": {"continue": "more"}, "items": [local_queue("old")]}),
        Reply(410, {"message": "The provided continue parameter is too old"}),
        Reply(body={"metadata": {}, "items": [local_queue("new")]}),
    ]
    with serving(lambda _: replies.pop(0)) as server:
        found = Client(Access(server=server.url)).list_all("/x", kueue.to_local_queue)
    assert [each.namespace for each in found] == ["new"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{}", "not a snapshot of version 1"),
        ('{"version": 1}', "a required field of Snapshot is missing"),
        ('{"version": 1, "taken": "2026-11-21", "scheduler": "kueue", "queues": []}', "expected datetime"),
        (
            '{"version": 1, "taken": "2026-11-21T00:00:00+00:00", "scheduler": "slurm", "queues": []}',
            "snapshot.scheduler: expected Scheduler",
        ),
        (
            '{"version": 1, "taken": "2026-11-21T00:00:00+00:00", "scheduler": "kai", "queues": [{"a": 1}]}',
            "expected Queue",
        ),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        parse_snapshot(text, source="x")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(150), deadline=None)
@given(
    key=st.sampled_from(["metadata", "spec", "status"]),
    inner=st.sampled_from(
        ["podSets", "conditions", "admission", "ownerReferences", "priority", "flavorsReservation", "name"]
    ),
    value=_JSON,
)
def test_an_object_of_any_shape_is_read(key: str, inner: str, value: object) -> None:
    found = {**workload(state="admitted"), key: {inner: value}}
    kueue.to_workload(found)
    kueue.to_workload({key: value})
    kueue.to_queue({key: {inner: value}})
    kueue.to_local_queue(value)


@settings(max_examples=examples(100), deadline=None)
@given(_JSON)
def test_any_json_is_a_snapshot_or_refused(value: object) -> None:
    for text in (json.dumps(value), json.dumps({"version": 1, "queues": value})):
        with pytest.raises(SnapshotError):
            parse_snapshot(text, source="x")


def test_a_device_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no size that could be looked at first."""
    monkeypatch.setattr("muster.live.snapshot._MAX_BYTES", 1024)
    with pytest.raises(SnapshotError, match="larger than"):
        load_snapshot(Path("/dev/zero"))
