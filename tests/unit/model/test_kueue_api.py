"""The whole of Kueue's API can be said: every field of a spec is rendered by some stack, or left out for a
reason that is written down.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.unit.model.kueue_files import DEFAULTED, Schema, definitions, everything, rendered
from tests.unit.model.openapi_check import mistakes

_FRAME = {"apiVersion", "kind", "metadata", "status"}
_ONE_CLUSTER: Final = "a stack is one cluster: Muster sends no work to others"
# What a stack cannot have, with the reason. A path excludes everything below it.
_EXCLUDED: Final = {
    "MultiKueueCluster.spec": _ONE_CLUSTER,
    "MultiKueueConfig.spec": _ONE_CLUSTER,
    "Workload.spec": "Kueue makes Workloads from jobs; tenants do not write them",
    "ResourceFlavor.spec.nodeTaints[].timeAdded": "the kubelet writes it; on a flavor it means nothing",
}


@pytest.fixture(scope="module")
def schemas() -> dict[str, Schema]:
    """Kind -> schema of v1beta2; Workload, whose definition takes seconds to read, by its frame alone."""
    frame = {"properties": {"spec": {"properties": {"podSets": {"type": "array"}}}}}
    return {**definitions(), "Workload": frame}


def _leaves(schema: Schema, path: str) -> Iterator[str]:
    """Every field that holds a value, lists by `[]`, maps as one."""
    below = schema.get("items", schema).get("properties")
    path = f"{path}[]" if "items" in schema and below else path
    if not below:
        yield path
    for name, field in (below or {}).items():
        yield from _leaves(field, f"{path}.{name}")


def _said(value: object, path: str) -> Iterator[str]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _said(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from _said(item, f"{path}[]")


def _fields(schemas: dict[str, Schema]) -> set[str]:
    found: set[str] = set()
    for kind, schema in schemas.items():
        for name, field in schema["properties"].items():
            if name not in _FRAME:
                found.update(_leaves(field, f"{kind}.{name}"))
    return found


def _rendered() -> set[str]:
    return {
        path
        for some in everything()
        for item in rendered(some)
        for key, value in item.items()
        if key not in _FRAME
        for path in _said(value, f"{item['kind']}.{key}")
    }


def _is_excluded(path: str) -> bool:
    return any(path == left or path.startswith((f"{left}.", f"{left}[")) for left in _EXCLUDED)


def test_every_field_of_every_spec_is_rendered_or_left_out_for_a_reason(schemas: dict[str, Schema]) -> None:
    rendered_fields = _rendered()
    missing = {path for path in _fields(schemas) if path not in rendered_fields and not _is_excluded(path)}
    assert missing == set()


def test_what_is_left_out_exists_and_is_not_rendered(schemas: dict[str, Schema]) -> None:
    fields, said = _fields(schemas), _rendered()
    for left, reason in _EXCLUDED.items():
        assert any(path == left or path.startswith((f"{left}.", f"{left}[")) for path in fields), left
        assert not any(path == left or path.startswith(f"{left}.") for path in said), left
        assert reason


def test_defaults_that_are_listed_are_the_definitions_own(schemas: dict[str, Schema]) -> None:
    for kind, values in DEFAULTED.items():
        for path, value in values.items():
            field = schemas[kind]
            for name in path.split("."):
                field = field["properties"][name]
            assert field["default"] == value, f"{kind}.{path}"


def test_every_object_with_all_fields_fits_its_definition(schemas: dict[str, Schema]) -> None:
    for some in everything():
        for item in rendered(some):
            if item["kind"] in schemas:
                assert mistakes(item, schemas[item["kind"]]) == [], item["metadata"]["name"]
