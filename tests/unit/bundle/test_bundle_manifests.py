"""What a Bundle's texts hold, in every shape that they may have."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.manifests import documents, rewrite
from muster.provider.manifests import ManifestError, Ref, read, same

NAMES = st.text("abcdefghij-", min_size=1, max_size=8)


def config_map(name: str, value: str = "x") -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "n"},
        "data": {"k": value},
    }


BODIES = st.lists(st.builds(config_map, NAMES, st.text(max_size=5)), min_size=1, max_size=4, unique_by=str)


@given(BODIES)
def test_every_shape_of_text_holds_the_same_objects(bodies: list[dict[str, object]]) -> None:
    labelled = {str(position): body for position, body in enumerate(bodies)}
    shapes = [
        json.dumps(bodies),
        json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}),
        json.dumps(labelled),
        yaml.safe_dump_all(bodies),
        yaml.safe_dump(labelled, sort_keys=False),
    ]
    for shape in shapes:
        assert documents(shape) == bodies


@given(NAMES, NAMES)
def test_a_ref_survives_being_written_into_the_state(namespace: str, name: str) -> None:
    for ref in (
        Ref("kueue.x-k8s.io/v1beta2", "LocalQueue", namespace, name),
        Ref("v1", "Namespace", "", name),
    ):
        assert Ref.decode(ref.encode()) == ref


def test_one_object_in_two_versions_of_its_api_is_one_object() -> None:
    old, new = (Ref(f"kueue.x-k8s.io/{version}", "Cohort", "", "c") for version in ("v1beta1", "v1beta2"))
    assert old.identity == new.identity


def test_all_problems_are_told_at_once_each_with_its_key() -> None:
    status = config_map("s") | {"status": {}}
    with pytest.raises(ManifestError) as caught:
        read(
            {
                "no-name": json.dumps(
                    {"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "x"}}
                ),
                "status": json.dumps(status),
                "scalar": "just a word",
                "first": json.dumps(config_map("twice")),
                "second": json.dumps(config_map("twice")),
            }
        )
    problems = {problem.key: problem.message for problem in caught.value.problems}
    assert problems.keys() == {"no-name", "status", "scalar", "second"}
    assert "metadata.name" in problems["no-name"]
    assert "'first'" in problems["second"]


def test_a_text_that_cannot_be_read_is_not_quoted() -> None:
    with pytest.raises(ManifestError) as caught:
        read({"k": "data: {password: hunter2\n  - ["})
    assert "hunter2" not in str(caught.value)
    assert "line" in str(caught.value)


def nines(merge: bool) -> str:
    """Nine values in nine in nine ...: 9^12 of them in some hundred bytes."""
    before, after = ("\n  <<: [", "]") if merge else (" [", "]")
    lines = [f"a{i}: &a{i}{before}{','.join([f'*a{i - 1}'] * 9)}{after}\n" for i in range(1, 13)]
    return "a0: &a0 {x: y}\n" + "".join(lines)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (nines(merge=False), "aliases make more than 1000000 characters of it"),
        (nines(merge=True), "aliases make more than 1000000 characters of it"),
        (f"- &a {'x' * 10_000}\n" + "- *a\n" * 3_000, "aliases make more than 1000000 characters of it"),
        ("a: &a [*a]", "an alias contains itself"),
        ("[" * 5_000 + "]" * 5_000, "nests too deeply"),
        ("- " * 5_000, "nests too deeply"),
        ("{a: " * 100_000, "nests too deeply"),
    ],
    ids=["lists", "merge keys", "a long text", "a circle", "deep JSON", "deep YAML", "deep and broken YAML"],
)
def test_a_text_that_expands_without_bound_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        documents(text)


def test_aliases_within_bounds_are_values() -> None:
    text = "- &a {kind: A, spec: {x: 1}}\n- {<<: *a, kind: B}\n- *a\n"
    assert [(each["kind"], each["spec"]) for each in documents(text)] == [
        (kind, {"x": 1}) for kind in ("A", "B", "A")
    ]


def test_another_spelling_of_the_same_objects_is_the_same() -> None:
    one, other = config_map("a"), config_map("b")
    assert same(json.dumps([one, other]), yaml.safe_dump_all([other, one]))
    assert not same(json.dumps([one]), json.dumps([one, other]))
    assert not same(json.dumps([one]), "not: [readable")


@given(BODIES)
def test_rewriting_nothing_keeps_the_objects_and_dropping_all_leaves_none(
    bodies: list[dict[str, object]],
) -> None:
    for text in (json.dumps(bodies), json.dumps({str(i): body for i, body in enumerate(bodies)})):
        assert documents(rewrite(text, lambda body: body)) == bodies
        assert documents(rewrite(text, lambda _: None)) in ([], [{}])


def test_an_empty_spec_is_left_out_and_no_other_empty_thing() -> None:
    cohort = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": "r"}, "spec": {}}
    policy = {
        "apiVersion": "v1",
        "kind": "X",
        "metadata": {"name": "p"},
        "spec": {"podSelector": {}},
        "data": {},
    }
    first, second = (item.body for item in read({"k": json.dumps([cohort, policy])}))
    assert "spec" not in first
    assert second == policy
