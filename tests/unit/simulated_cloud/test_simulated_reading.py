"""Quantities, shapes, offerings and hostile objects: read right, or refused with a reason."""

import contextlib
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.local.quantities import milli, rfc3339_micro, seconds, timestamp
from muster.local.simulated_cloud import actions, attempts, faults, manifests, names
from muster.local.simulated_cloud import offering as offerings
from muster.local.simulated_cloud.actions import CreateNode
from muster.local.simulated_cloud.app import UNREADABLE
from muster.local.simulated_cloud.fit import PodShape, nodes_needed, pod_shape
from muster.local.simulated_cloud.objects import VmState, parse_node, parse_pod, parse_request
from muster.local.simulated_cloud.offering import Kind, OfferingError
from tests.length import examples
from tests.unit.simulated_cloud.world import ONE_GPU, offering, pool

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100m", 100),
        ("2", 2000),
        ("1.5", 1500),
        ("2Gi", 2 * 1024**3 * 1000),
        ("1e3", 1_000_000),
        ("1u", 1),
        (".5", 500),
    ],
)
def test_quantities_are_read_as_the_api_server_reads_them(text: str, value: int) -> None:
    assert milli(text) == value


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "--1", "NaN", "1e9999", "9" * 50])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantity"):
        milli(text)


@settings(deadline=None)
@given(st.floats(0, 4e9))
def test_a_timestamp_survives_writing_and_reading(moment: float) -> None:
    assert abs(timestamp(rfc3339_micro(moment)) - moment) < 1e-5


@pytest.mark.parametrize(("text", "value"), [("10s", 10), ("1h30m", 5400), ("0.5s", 0.5)])
def test_durations_have_units(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "10", "1d", "-5s", "s"])
def test_a_duration_without_a_known_unit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds(text)


@settings(deadline=None)
@given(st.integers(1, 500), st.integers(0, 40))
def test_nodes_for_pods_of_one_shape_are_counted_without_filling_them(pods: int, most: int) -> None:
    shape = PodShape({"cpu": 300, "pods": 1000})
    room = 3  # in 1000 thousandths
    needed = nodes_needed([(shape, pods)], {"cpu": 1000, "pods": 110_000}, most=most)
    expected = -(-pods // room)
    assert needed == (expected if expected <= most else None)


def test_shapes_share_a_node_where_they_fit() -> None:
    empty = {"cpu": 1000, "pods": 110_000}
    big, small = PodShape({"cpu": 700, "pods": 1000}), PodShape({"cpu": 300, "pods": 1000})
    assert nodes_needed([(big, 2), (small, 2)], empty, most=5) == 2


def test_a_pod_asks_for_its_containers_its_sidecars_and_the_greatest_of_its_init_containers() -> None:
    def box(cpu: str, **more: object) -> dict[str, object]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "initContainers": [box("100m", restartPolicy="Always"), box("900m")],
        "containers": [box("200m"), {"resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        "overhead": {"cpu": "50m"},
    }
    assert pod_shape(spec).requests == {"cpu": 1050, "nvidia.com/gpu": 1000, "pods": 1000}


def test_required_node_affinity_is_an_or_of_ands() -> None:
    terms = [
        {
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["a"]},
                {"key": "old", "operator": "DoesNotExist"},
            ]
        },
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ]
    spec = {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    }
    shape = pod_shape(spec)
    assert shape.obstacle({"zone": "a"}, ()) is None
    assert shape.obstacle({"zone": "a", "old": ""}, ()) is not None
    assert shape.obstacle({}, (), "n1") is None


def test_the_shipped_offering_is_valid_and_small_enough_for_the_plane() -> None:
    shipped = offerings.read()
    real = [one for one in shipped.pools.values() if one.kind is Kind.REAL]
    assert {one.name: one.stock for one in real} == {"l4": 1, "h100": 1}
    assert all(milli(one.cpu) <= 1000 and milli(one.memory) <= milli("2Gi") for one in real)
    assert all(one.kind is Kind.REAL for one in shipped.pools.values()), "kwok pools are off by default"
    assert all("nvidia.com/gpu=present:NoSchedule" in map(str, one.taints) for one in real)


def test_what_an_offering_leaves_out_is_as_in_the_originals() -> None:
    plain = "name: x, cpu: '1', memory: 1Gi, maxNodes: 1, stock: 1"
    queued, atomic, untainted = (
        offerings.parse(f"pools:\n- {{{plain}, {rest}}}", source="test")
        for rest in (
            f"classes: [{names.QUEUED}]",
            f"classes: [{names.BEST_EFFORT}]",
            f"classes: [{names.QUEUED}], queuedTaint: false",
        )
    )
    taint = f"{names.QUEUED_LABEL}=true:NoSchedule"
    assert [str(each) for each in queued.pools["x"].taints] == [taint]
    assert not atomic.pools["x"].taints
    assert not untainted.pools["x"].taints
    assert queued.times.scale_down == queued.times.scale_down_consumed == 600


def test_a_clock_twice_as_fast_halves_every_duration() -> None:
    plain, fast = offerings.read(), offerings.read(scale=2.0)
    assert fast.pools["l4"].provision_delay == plain.pools["l4"].provision_delay / 2
    assert fast.times.booking == plain.times.booking / 2 == 300


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("{name: x, cpu: '1', memory: 1Gi, maxNodes: 1}", "stock"),
        ("{name: x, cpu: one, memory: 1Gi, maxNodes: 1, stock: 1}", "quantity"),
        ("{name: x, cpu: '1', memory: 1Gi, maxNodes: 1, stock: 99999999}", "maxNodes and stock"),
        ("{name: x, cpu: '1', memory: 1Gi, maxNodes: 1, stock: 1, taints: [a]}", "taint 'a'"),
        ("{name: x, cpu: '1', memory: 1Gi, maxNodes: 1, stock: 1, gpu: 1}", "knows no gpu"),
        ("{name: x, cpu: '1', memory: 1Gi, maxNodes: 1, stock: 1, classes: [y]}", "classes: y"),
    ],
)
def test_a_wrong_pool_is_refused_with_its_place(entry: str, complaint: str) -> None:
    with pytest.raises(OfferingError, match=r"pools\[0\]") as refusal:
        offerings.parse(f"pools:\n- {entry}", source="test")
    assert complaint in str(refusal.value)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_node_that_is_written_is_the_node_that_is_read(kind: Kind) -> None:
    own = pool(kind=kind)
    written = actions.node(CreateNode("l4-0", "l4", "team-a/gang", "u1", "gke-x", 3, 1000.5, 2000.0), own)
    meta = {**written["metadata"], "uid": "n1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    node = parse_node({**written, "metadata": meta})
    assert (node.owner, node.owner_uid, node.lease, node.ordinal) == ("team-a/gang", "u1", "gke-x", 3)
    assert (node.created, node.expires) == (1000.5, 2000.0)
    assert node.vm is (VmState.RUNNING if kind is Kind.KWOK else VmState.REQUESTED)
    assert node.taints == own.taints
    assert (node.allocatable == own.allocatable) is (kind is Kind.KWOK)


# Random objects fail at the first field; these are right in shape and hold junk wherever a value is read.
_JUNK = _JSON | st.sampled_from(
    ["9" * 400, "1e999", "-1", "\u0661", "NaN", float("inf"), float("nan"), 2**70, "9999-99-99T00:00:00Z"]
)
_NOTES = [names.VM, names.CREATED, names.ORDINAL, names.EXPIRES]
_METADATA = st.fixed_dictionaries(
    {"namespace": st.just("n"), "name": st.just("r"), "uid": st.just("u"), "creationTimestamp": _JUNK},
    optional={
        "labels": _JUNK,
        "annotations": st.dictionaries(st.sampled_from(_NOTES), _JUNK),
        "generation": _JUNK,
        "ownerReferences": st.lists(_JUNK, max_size=2),
    },
)
_POD_SET = st.fixed_dictionaries({"count": _JUNK, "podTemplateRef": _JUNK})
_SPEC = st.fixed_dictionaries(
    {"podSets": st.lists(_POD_SET, max_size=2), "provisioningClassName": _JUNK},
    optional=dict.fromkeys(("parameters", "taints", "containers", "tolerations", "affinity"), _JUNK),
)
_CONDITION = st.fixed_dictionaries(
    {"type": _JUNK, "status": _JUNK, "lastTransitionTime": _JUNK}, optional={"observedGeneration": _JUNK}
)
_STATUS = st.fixed_dictionaries(
    {},
    optional={
        "conditions": st.lists(_CONDITION, max_size=2),
        "allocatable": st.dictionaries(st.text(max_size=3), _JUNK, max_size=2),
        "capacity": _JUNK,
    },
)
_HOSTILE = st.fixed_dictionaries({"metadata": _METADATA, "spec": _SPEC, "status": _STATUS})


_ENDLESS = {
    "metadata": {"namespace": "n", "name": "r", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"podSets": [{"count": float("inf")}], "provisioningClassName": "x"},
}


@settings(deadline=None, max_examples=examples(300))
@example(raw=_ENDLESS)
@given(raw=_HOSTILE | st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), _JSON))
def test_a_hostile_object_is_refused_by_an_error_that_the_loop_expects(raw: dict[str, Any]) -> None:
    for parse in (parse_node, parse_pod, lambda one: parse_request(one, {})):
        try:
            parse(raw)
        except UNREADABLE:
            continue


@pytest.mark.parametrize("text", [".inf", ".nan", "[]", "{}", "9" * 5000])
def test_no_value_of_a_config_map_gets_past_its_reader(text: str) -> None:
    for key in ("count", "missing", "at", "for", "by", "hits"):
        faults.parse({"x": f"{{pool: l4, kind: delay, {key}: {text}}}", "capacity": f"{{l4: {text}}}"})
    for key in ("stock", "maxNodes", "gpus", "pods", "cpu", "labels", "taints", "provisionDelay"):
        entry = {"name": "x", "cpu": "'1'", "memory": "1Gi", "maxNodes": "1", "stock": "1"} | {key: text}
        flow = ", ".join(f"{name}: {value}" for name, value in entry.items())
        with contextlib.suppress(OfferingError):
            offerings.parse(f"pools:\n- {{{flow}}}", source="test")


def test_nonsense_in_the_details_promises_nothing() -> None:
    raw = {
        "metadata": {"namespace": "n", "name": "r", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "provisioningClassName": names.QUEUED,
            "podSets": [{"podTemplateRef": {"name": "t"}, "count": 1}],
        },
        "status": {"provisioningClassDetails": {names.DETAIL_NODES: "-1", names.DETAIL_READY_AT: "soon"}},
    }
    read = parse_request(raw, {"n/t": ONE_GPU})
    assert (read.asked, read.promised, read.delivered) == (0, 0, 0)


def test_a_lease_is_charged_once_over_a_restart() -> None:
    node = parse_node(
        {
            "metadata": {
                "name": "l4-0",
                "uid": "n1",
                "creationTimestamp": "1970-01-01T00:00:00Z",
                "labels": {names.POOL_LABEL: "l4"},
                "annotations": {names.VM: "running"},
            }
        }
    )
    book = attempts.Ledger()
    assert book.close(node, now=60.0, scale=60.0)
    data = book.write(offering(), [node], now=70.0, stock={}, waiting={"l4": 2})
    again = attempts.Ledger.read(data)
    assert not again.close(node, now=80.0, scale=60.0)
    assert '"nodeSeconds": 3600.0, "cost": 3.6' in data["l4"]
    assert '"nodes": 0, "stock": 1, "waiting": 2' in data["l4"]
    assert attempts.Ledger.read({"ledger": "{"}).closed == {}


def test_the_autoscaler_may_touch_no_secret_and_no_workload() -> None:
    rules = [rule for one in manifests.manifests() for rule in one.get("rules", ())]
    touched = {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}
    assert {resource for _, resource in touched} == {
        *("provisioningrequests", "provisioningrequests/status", "pods", "podtemplates"),
        *("nodes", "nodes/status", "configmaps"),
    }
    writes = {(verb, resource) for verb, resource in touched if verb not in ("get", "list", "watch")}
    assert not {pair for pair in writes if pair[1] in ("pods", "podtemplates")}
