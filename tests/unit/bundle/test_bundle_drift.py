"""Drift is a field that we applied and that the cluster does not show; nothing else is."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.provider.converge import holds
from muster.provider.manifests import amount, project, same_amount
from muster.provider.provider import changes, path

LEAVES = st.one_of(st.booleans(), st.integers(-5, 5), st.text("abc", min_size=1, max_size=3))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.dictionaries(st.text("xyz", min_size=1, max_size=2), inner, min_size=1, max_size=3),
    ),
    max_leaves=10,
)


def body(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}


def defaulted(value: Any) -> Any:
    """The value as a server gives it back: every map has more fields than were sent."""
    if isinstance(value, dict):
        return {key: defaulted(inner) for key, inner in value.items()} | {"defaulted-by-server": 1}
    if isinstance(value, list):
        return [defaulted(inner) for inner in value]
    return value


@given(TREES)
def test_what_the_server_adds_is_no_drift(spec: Any) -> None:
    applied = body(spec)
    live = defaulted(copy.deepcopy(applied)) | {"status": {"phase": "Ready"}}
    assert project(applied, live, manager="muster") == applied


@given(st.dictionaries(st.text("xyz", min_size=1, max_size=2), LEAVES, min_size=1, max_size=4), st.data())
def test_a_field_of_ours_that_differs_or_is_gone_is_drift(spec: dict[str, Any], data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(sorted(spec)))
    changed, gone = body(dict(spec)), body(dict(spec))
    changed["spec"][field] = ["something else"]
    del gone["spec"][field]
    assert project(body(spec), changed, manager="muster")["spec"][field] == ["something else"]
    assert field not in project(body(spec), gone, manager="muster")["spec"]


def test_a_list_merged_by_keys_ignores_order_and_items_of_others() -> None:
    applied = body({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]})
    live = body(
        {"containers": [{"name": "sidecar"}, {"name": "b", "image": "2"}, {"name": "a", "image": "9"}]}
    )
    owned: dict[str, Any] = {
        "f:spec": {
            "f:containers": {
                'k:{"name":"a"}': {"f:name": {}, "f:image": {}},
                'k:{"name":"b"}': {"f:name": {}, "f:image": {}},
            }
        }
    }
    live["metadata"]["managedFields"] = [{"manager": "muster", "operation": "Apply", "fieldsV1": owned}]
    seen = project(applied, live, manager="muster")
    assert seen["spec"]["containers"] == [{"name": "a", "image": "9"}, {"name": "b", "image": "2"}]


def test_a_set_that_others_add_to_is_no_drift_and_one_that_lost_ours_is() -> None:
    applied: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "T",
        "metadata": {"name": "t", "finalizers": ["ours"]},
    }
    live = copy.deepcopy(applied)
    live["metadata"]["managedFields"] = [
        {
            "manager": "muster",
            "operation": "Apply",
            "fieldsV1": {"f:metadata": {"f:finalizers": {'v:"ours"': {}}}},
        }
    ]
    live["metadata"]["finalizers"] = ["theirs", "ours"]
    assert project(applied, live, manager="muster") == applied
    live["metadata"]["finalizers"] = ["theirs"]
    assert project(applied, live, manager="muster") != applied


@pytest.mark.parametrize(
    ("one", "other"), [("1", "1000m"), ("1Gi", 2**30), (2, "2"), ("0.5", "500m"), ("1e3", "1k")]
)
def test_two_spellings_of_an_amount_are_one_amount(one: object, other: object) -> None:
    assert same_amount(one, other)
    assert project(body({"q": one}), body({"q": other}), manager="muster") == body({"q": one})


def test_text_that_looks_like_an_amount_is_text() -> None:
    assert amount("v1") is None
    assert amount(True) is None
    labelled = {"apiVersion": "v1", "kind": "T", "metadata": {"name": "t", "labels": {"version": "1.0"}}}
    live = {"metadata": {"name": "t", "labels": {"version": "1"}}}
    assert project(labelled, live, manager="muster")["metadata"]["labels"] == {"version": "1"}


@pytest.mark.parametrize(
    "field",
    [
        '.spec.containers[name="a"].image',
        ".metadata.labels.muster.dev/team",
        '.metadata.finalizers[="x"]',
        '.spec.ports[port=80,protocol="TCP"].name',
    ],
)
def test_a_field_that_was_applied_is_found_by_the_server_s_path(field: str) -> None:
    applied = {
        "metadata": {"labels": {"muster.dev/team": "a"}, "finalizers": ["x"]},
        "spec": {
            "containers": [{"name": "a", "image": "i"}],
            "ports": [{"port": 80, "protocol": "TCP", "name": "n"}],
        },
    }
    assert holds(applied, field)
    assert not holds({"spec": {"containers": [{"name": "b", "image": "i"}]}, "metadata": {}}, field)


TEXTS = st.dictionaries(
    st.text("abc", max_size=2), st.sampled_from(['{"a": 1}', '{"a": 2}', "a: 1\n"]), max_size=4
)


@given(TEXTS, TEXTS)
def test_only_keys_that_differ_are_changes(old: dict[str, str], new: dict[str, str]) -> None:
    found = changes(old, new)
    assert {key for key, change in found.items() if change == "add"} == new.keys() - old.keys()
    assert {key for key, change in found.items() if change == "delete"} == old.keys() - new.keys()
    assert changes(new, new) == {}


def test_a_key_with_quotes_is_quoted_in_its_path() -> None:
    assert path('a"b') == 'manifests["a\\"b"]'
