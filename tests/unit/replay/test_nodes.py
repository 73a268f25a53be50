"""What the recorder keeps of the nodes of a cluster."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from muster.controller.gangs.objects import (
    Condition,
    Placeholder,
    PlaceholderStatus,
    PodSpec,
    ProvisioningRequest,
    ProvisioningRequestStatus,
)
from muster.controller.kube.resource import ObjectMeta
from muster.model import names
from muster.model.names import INSTANCE_TYPE_LABEL
from muster.model.stack import Scheduler
from muster.replay.moment import Tracker
from muster.replay.recording import Booked, Header, Ids, Job, Node, Recording, Usable
from muster.replay.recording_file import Writer, load_recording, write_recording
from muster.replay.sources import Workloads
from muster.replay.watch import (
    NODES,
    PLACEHOLDERS,
    REQUESTS,
    KubernetesNode,
    NodeSpec,
    NodeTaint,
    Status,
    WithNodes,
)

BORN = 1000.0
HEADER = Header(scheduler=Scheduler.KUEUE, start=0, end=5000, source="cluster", nodes_from=0.0)


def _node(*, ready: bool, gpus: int = 8, since: float = BORN, name: str = "a") -> KubernetesNode:
    amounts: dict[str, str | int | float] = {names.GPU_RESOURCE: str(gpus)} if gpus else {}
    status = Status(
        conditions=(
            Condition(
                type="Ready",
                status="True" if ready else "False",
                last_transition_time=datetime.fromtimestamp(since, UTC),
            ),
        ),
        capacity={names.GPU_RESOURCE: "8"} if gpus else {},
        allocatable=amounts,
    )
    meta = ObjectMeta(
        name=name,
        uid=f"uid-{name}",
        creation_timestamp=datetime.fromtimestamp(BORN, UTC),
        labels={
            names.POOL_LABEL: "h100",
            INSTANCE_TYPE_LABEL: "a3-highgpu-8g",
            names.GKE_LEASE_LABEL: "lease-1",
        },
    )
    return KubernetesNode(metadata=meta, status=status)


def _source() -> WithNodes:
    ids = Ids(b"key")
    return WithNodes(Workloads(Tracker(ids=ids, start=0)), ids)


def _only(lines: Sequence[Job | Node]) -> Node:
    (node,) = lines
    assert isinstance(node, Node)
    return node


def test_a_node_boots_loses_a_gpu_breaks_and_goes() -> None:
    source = _source()
    source.put(NODES, _node(ready=False, gpus=0), at=1001.0)
    source.put(NODES, _node(ready=True), at=1200.0)
    assert source.put(NODES, _node(ready=True), at=1210.0) == []
    source.put(NODES, _node(ready=True, gpus=7), at=1300.0)
    source.put(NODES, _node(ready=False, gpus=7), at=1400.0)
    node = _only(source.remove(NODES, _node(ready=False), at=1500.0))
    assert node.usable == (Usable(1200.0, 8), Usable(1300.0, 7), Usable(1400.0, 0))
    assert (node.pool, node.machine, node.gpus) == ("h100", "a3-highgpu-8g", 8)
    assert (node.created, node.left) == (BORN, 1500.0)
    assert "uid-a" not in node.id


def test_a_node_that_is_set_aside_is_broken_until_it_is_opened() -> None:
    source, taints = _source(), (NodeTaint(key=names.BROKEN_TAINT_KEY),)
    source.put(NODES, _node(ready=True), at=1200.0)
    source.put(NODES, replace(_node(ready=True), spec=NodeSpec(taints=taints)), at=1300.0)
    node = _only(source.put(NODES, _node(ready=True), at=1400.0))
    assert node.usable == (Usable(BORN, 8), Usable(1300.0, 0), Usable(1400.0, 8))


def test_a_node_that_was_usable_before_the_recorder_came_did_not_boot_until_then() -> None:
    node = _only(_source().replace(NODES, [_node(ready=True, since=1100.0)], at=4000.0, gone_at=4000.0))
    assert node.usable == (Usable(1100.0, 8),)


def test_a_node_that_is_set_aside_when_the_recorder_comes_has_booted_and_is_broken() -> None:
    taints = (NodeTaint(key=names.BROKEN_TAINT_KEY),)
    closed = replace(_node(ready=True, since=1100.0), spec=NodeSpec(taints=taints))
    node = _only(_source().replace(NODES, [closed], at=4000.0, gone_at=4000.0))
    assert node.usable == (Usable(1100.0, 8), Usable(4000.0, 0))


def test_a_node_that_went_while_nothing_watched_left_at_the_start_of_the_gap() -> None:
    source = _source()
    source.put(NODES, _node(ready=True), at=1200.0)
    assert _only(source.replace(NODES, [], at=3000.0, gone_at=2000.0)).left == 2000.0


def test_an_odd_quantity_stops_no_recorder() -> None:
    odd = KubernetesNode(
        metadata=_node(ready=True).metadata, status=Status(capacity={names.GPU_RESOURCE: "many"})
    )
    assert _only(_source().put(NODES, odd, at=1200.0)).gpus == 0


def test_nodes_are_read_as_they_were_written_and_a_new_part_has_those_that_are_there(tmp_path: Path) -> None:
    there = Node(id="a", pool="h100", machine="m", created=BORN, gpus=8, usable=(Usable(1200.0, 8),))
    gone = Node(id="b", pool="h100", machine="m", created=BORN, gpus=8, left=2000.0)
    recording = Recording(header=HEADER, jobs=(), nodes=(there, gone))
    write_recording(tmp_path / "day.jsonl", recording)
    assert load_recording(tmp_path / "day.jsonl") == recording
    with Writer.begin(tmp_path / "parts.jsonl", HEADER, rotate_bytes=1) as writer:
        writer.add([there, gone])
    assert load_recording(tmp_path / "parts.jsonl", most_older=0).nodes == (there,)


def test_a_recording_of_the_first_version_is_read_and_gets_nodes_from_its_second_header_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text(
        '{"header":{"version":1,"scheduler":"kueue","start":0.0,"end":50.0,"source":"cluster"}}\n'
        '{"mark":60.0}\n'
    )
    assert load_recording(path).header.nodes_from is None
    with Writer.resume(path, load_recording(path), rotate_bytes=1) as writer:
        writer.add([Header(scheduler=Scheduler.KUEUE, start=0, end=60, source="cluster", nodes_from=70.0)])
    assert load_recording(path).header.nodes_from == 70.0
    assert load_recording(path, most_older=0).header.nodes_from == 70.0


def _belonging(job: str, asked: float) -> ObjectMeta:
    created = datetime.fromtimestamp(asked, UTC)
    labels = {names.WORKLOAD_UID_LABEL: job}
    return ObjectMeta(name=f"of-{job}", uid=f"uid-{job}", creation_timestamp=created, labels=labels)


def _request(job: str, asked: float = BORN - 100) -> ProvisioningRequest:
    status = ProvisioningRequestStatus(provisioning_class_details={names.GKE_LEASE_DETAIL: "lease-1"})
    return ProvisioningRequest(metadata=_belonging(job, asked), status=status)


def _placeholder(job: str, asked: float, *, phase: str = "Running") -> Placeholder:
    return Placeholder(
        metadata=_belonging(job, asked), spec=PodSpec(node_name="a"), status=PlaceholderStatus(phase=phase)
    )


@pytest.fixture
def booked() -> WithNodes:
    ids = Ids(b"key")
    source = WithNodes(Workloads(Tracker(ids=ids, start=0)), ids, (REQUESTS, PLACEHOLDERS))
    source.replace(REQUESTS, [], at=BORN, gone_at=BORN)
    source.replace(PLACEHOLDERS, [], at=BORN, gone_at=BORN)
    return source


def test_the_node_of_a_lease_is_kept_for_its_gang_until_the_request_is_gone(booked: WithNodes) -> None:
    job = booked.ids.of("one")
    booked.put(NODES, _node(ready=True), at=1200.0)
    booked.put(REQUESTS, _request("one"), at=1300.0)
    assert booked.put(REQUESTS, _request("one"), at=1310.0) == []
    node = _only(booked.remove(REQUESTS, _request("one"), at=1500.0))
    assert node.booked == (Booked(BORN, job), Booked(1500.0, "")), "it came for a request that was older"


def test_a_node_that_was_there_is_kept_from_when_a_placeholder_stands_on_it(booked: WithNodes) -> None:
    booked.put(NODES, _node(ready=True), at=1200.0)
    booked.put(PLACEHOLDERS, _placeholder("two", 1250.0), at=1300.0)
    node = _only(booked.put(PLACEHOLDERS, _placeholder("two", 1250.0, phase="Failed"), at=1400.0))
    assert node.booked == (Booked(1300.0, booked.ids.of("two")), Booked(1400.0, ""))


def test_a_recorder_that_comes_later_says_nothing_until_all_has_been_listed() -> None:
    ids = Ids(b"key")
    source = WithNodes(Workloads(Tracker(ids=ids, start=0)), ids, (REQUESTS, PLACEHOLDERS))
    before = Node(
        id=ids.of("uid-a"), pool="h100", machine="", created=BORN, booked=(Booked(BORN, ids.of("one")),)
    )
    source.restore(Recording(header=HEADER, jobs=(), nodes=(before,)))
    source.replace(NODES, [_node(ready=True)], at=2000.0, gone_at=1900.0)
    assert source.replace(PLACEHOLDERS, [], at=2000.0, gone_at=1900.0) == []
    assert source.replace(REQUESTS, [_request("one")], at=2000.0, gone_at=1900.0) == []
    node = _only(source.replace(REQUESTS, [], at=2100.0, gone_at=2050.0))
    assert node.booked == (*before.booked, Booked(2100.0, ""))
