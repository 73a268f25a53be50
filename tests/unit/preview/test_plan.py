"""A plan lists operations on resources and never values, and a file that is not a plan is refused."""

import json
from pathlib import Path

import pytest

from muster.preview.plan import ObjectChange, PlanError, compare_manifests, load_plan, parse_plan
from tests.unit.preview.preview_world import PLAN, bundle, plan, step


def test_a_real_plan_names_the_objects_and_fields_that_change() -> None:
    found = load_plan(PLAN)
    assert found.stack == "local"
    assert [(each.verb, each.name) for each in found.resources] == [
        ("deleted", "team-b"),
        ("created", "team-d"),
        ("updated", "priorities-classes"),
        ("updated", "team-a"),
    ]
    assert found.resources[2].fields == ('manifests["dev"]',)
    assert found.resources[2].objects == (
        ObjectChange(
            key="dev", name="WorkloadPriorityClass/dev", verb="updated", places=("description", "value")
        ),
    )
    assert {each.name for each in found.resources[0].objects} == {
        "ClusterQueue/team-b",
        "LocalQueue/default",
        "Namespace/team-b",
    }
    assert "spec.resourceGroups[0].flavors[l4].resources[nvidia.com/gpu].nominalQuota" in (
        found.resources[3].objects[0].places
    )
    assert json.loads(str(found.config["muster:priorities"])) == {"dev": 200, "prod": 1000}


def test_the_steps_of_a_replacement_are_one_resource_and_come_first() -> None:
    steps = [
        step("create", "b"),
        step("create-replacement", "a", replaceReasons=["name"]),
        step("replace", "a", replaceReasons=["name"], detailedDiff={"name": {"kind": "update-replace"}}),
        step("delete-replaced", "a"),
        step("same", "c"),
    ]
    found = plan(*steps).resources
    assert [(each.verb, each.name, each.replaced_for) for each in found] == [
        ("replaced", "a", ("name",)),
        ("created", "b", ()),
    ]


def test_an_unknown_operation_is_shown_as_an_update() -> None:
    assert [each.verb for each in plan(step("transmogrify")).resources] == ["updated"]


def test_values_are_not_even_read() -> None:
    hidden = "hunter2-hunter2"
    state = {"inputs": {"data": {"password": hidden}, "stringData": {"a": hidden}}, "outputs": {"x": hidden}}
    manifest = json.dumps({"Secret/s": {"stringData": {"token": hidden}}})
    other = json.dumps({"Secret/s": {"stringData": {"token": hidden + "2"}}})
    found = plan(
        step("update", oldState=state, newState=state, detailedDiff={"data.password": {}}),
        bundle("update", "team", {"team": manifest}, {"team": other}),
    )
    assert hidden not in repr(found)
    assert found.resources[1].objects[0].places == ("stringData.token",)


def test_a_plain_text_secret_is_removed_from_the_engines_messages() -> None:
    opened = {
        "inputs": {
            "password": {
                "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
                "plaintext": '"open-sesame"',
            }
        }
    }
    found = plan(step("create", newState=opened), errors=("cannot log in with open-sesame",))
    assert found.errors == ("cannot log in with [secret]",)


def test_a_secret_or_unparsable_bundle_key_is_shown_as_changed() -> None:
    for hidden in ("[secret]", "not: json", "[1, 2]", "[" * 100_000):
        assert list(compare_manifests({"team-a": hidden}, {"team-a": "{}"})) == [
            ObjectChange(key="team-a", name="", verb="updated")
        ]


def test_a_bundle_of_one_object_a_key_names_the_object() -> None:
    sides = [
        json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": value}})
        for value in ("1", "2")
    ]
    assert list(compare_manifests({"a": sides[0]}, {"a": sides[1]})) == [
        ObjectChange(key="a", name="ConfigMap/a", verb="updated", places=("data.x",))
    ]


def test_lists_of_one_length_are_compared_by_place_and_others_as_a_whole() -> None:
    def text(value: object) -> dict[str, str]:
        return {"k": json.dumps({"Kind/n": {"spec": {"list": value}}})}

    def places(old: object, new: object) -> tuple[str, ...]:
        return next(compare_manifests(text(old), text(new))).places

    assert places([1, 2], [1, 3]) == ("spec.list[1]",)
    assert places([1], [1, 3]) == ("spec.list",)
    assert places([{"name": "a", "x": 1}], [{"name": "b"}, {"name": "a", "x": 2}]) == (
        "spec.list[a].x",
        "spec.list[b]",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("[]", "not the output of `pulumi preview --json`"),
        ('"text"', "not the output of"),
        ('{"resources": []}', "neither steps nor diagnostics"),
        ('{"steps": {}}', "not the output of"),
        ("Previewing update (dev)", "not JSON in line 1"),
        ('{"steps": [{"op": "upd', "the file is incomplete"),
        ('{"steps": []}\n{"steps": []}', "more than one JSON document"),
        ("[" * 200_000, "not a plan"),
    ],
)
def test_an_error_about_a_plan_names_the_cause_and_the_fix(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parse_plan(text, source="plan.json")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"gone\.json: cannot be read: No such file"):
        load_plan(tmp_path / "gone.json")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError, match="not UTF-8"):
        load_plan(tmp_path / "bytes")


def test_steps_of_a_strange_shape_are_survived() -> None:
    strange = {
        "config": [],
        "steps": [
            1,
            None,
            {},
            {"urn": 5},
            {"urn": "no-urn", "op": None, "detailedDiff": [], "oldState": "x"},
            {"urn": "urn:pulumi:s::p::t::n", "op": "update", "newState": {"inputs": {"manifests": [1]}}},
        ],
        "diagnostics": [None, {"severity": "error"}, {"severity": "error", "message": 7}],
    }
    found = parse_plan(json.dumps(strange), source="plan.json")
    assert [each.name for each in found.resources] == ["no-urn", "n"]
    assert (found.stack, found.errors, found.config) == ("s", (), {})
