"""Our writing of KAI's definitions says what KAI's own say, where those are at hand."""

from typing import Any

import pytest

from tests.kai.definitions import NOT_OURS, ours, theirs

# Words that bind nobody: texts, columns of a printout, and rules whose wording is free (their number is not).
_WORDS = ("description", "example", "x-kubernetes-validations")


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    bare = {key: _bare(value) for key, value in schema.items() if key not in _WORDS}
    if "properties" in schema:  # names of fields are no words of the schema
        bare["properties"] = {name: _bare(value) for name, value in schema["properties"].items()}
    if "required" in bare:
        bare["required"] = sorted(bare["required"])
    if "x-kubernetes-validations" in schema:
        bare["rules"] = len(schema["x-kubernetes-validations"])
    return bare


@pytest.mark.parametrize("name", sorted(ours()))
def test_fields_types_enums_and_required_are_kais(name: str) -> None:
    if not theirs():
        return
    mine, other = ours()[name]["spec"], theirs()[name]["spec"]
    assert {key: mine[key] for key in ("group", "names", "scope")} == {
        key: other[key] for key in ("group", "names", "scope")
    }
    assert len(mine["versions"]) == len(other["versions"]) == 1
    for version, wanted in zip(mine["versions"], other["versions"], strict=True):
        assert _bare(version["schema"]) == _bare(wanted["schema"])
        for key in ("name", "served", "storage", "subresources"):
            assert version.get(key) == wanted.get(key), key


def test_every_definition_of_kai_is_written_down_or_named_as_not_ours() -> None:
    if not theirs():
        return
    assert theirs().keys() == ours().keys() | NOT_OURS


def test_the_comparison_sees_a_field_that_moved() -> None:
    assert _bare({"properties": {"description": {"type": "string"}}}) != _bare({"properties": {}})
    assert _bare({"type": "string", "description": "one"}) == _bare({"type": "string", "description": "two"})
    assert _bare({"enum": ["a"]}) != _bare({"enum": ["b"]})
