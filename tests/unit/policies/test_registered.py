"""Every object of a Bundle is found, however its text holds it."""

import json

import pytest

from muster.policies.registered import BUNDLE, Registered, Resource

ONE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (json.dumps(ONE), 1),
        (json.dumps({"ConfigMap/a": ONE, "ConfigMap/b": ONE}), 2),
        ("apiVersion: v1\nkind: ConfigMap\n---\nkind: ConfigMap\n", 2),
        (json.dumps(["kind"]), 0),
        (json.dumps({"x": "y"}), 0),
        ("3", 0),
    ],
)
def test_one_object_several_or_none_are_found(text: str, count: int) -> None:
    resource = Resource(urn="urn", type=BUNDLE, name="b", inputs={"manifests": {"key": text}})
    found = list(Registered((resource,)).items())
    assert len(found) == count
    assert {each.kind for each in found} <= {"ConfigMap"}
