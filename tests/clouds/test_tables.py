"""The tables against what they are tables of: the pinned SDKs and the clouds' own definitions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

from tests.clouds.standin import amazon, sdk
from tests.clouds.standin.table import Own, Pairs, Table, api_fields
from tests.clouds.standin.tables import TABLES

EVERY = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


@EVERY
def test_a_table_names_inputs_that_the_sdk_has(table: Table) -> None:
    for path in table.inputs:
        sdk.at(sdk.arguments(table.sdk), path)


@EVERY
def test_a_table_names_fields_that_the_api_has(table: Table) -> None:
    for place in table.inputs.values():
        api_fields(table, place)


@EVERY
def test_every_input_that_the_sdk_requires_is_mapped(table: Table) -> None:
    required = {name for name, field in sdk.fields(sdk.arguments(table.sdk)).items() if field.required}
    assert {path.partition(".")[0] for path in table.inputs} >= required


@EVERY
def test_every_field_that_aws_requires_is_mapped(table: Table) -> None:
    service, _, operation = table.api.partition(":")
    if "." in service:
        pytest.skip("Google's definitions do not say what is required")
    places = {place.path if isinstance(place, Pairs) else place for place in table.inputs.values()}
    mapped = {str(place).rpartition("/")[2].partition(".")[0] for place in places if not isinstance(place, Own)}
    made_by_the_provider = {"Tags"} if operation == "CreateOrUpdateTags" else set()
    assert amazon.required(service, operation) - made_by_the_provider <= mapped


@EVERY
def test_what_a_table_refers_to_exists(table: Table) -> None:
    for path, tokens in table.refers.items():
        assert path in table.inputs
        assert set(tokens) <= set(TABLES)
    assert {*table.unique, *([table.autonamed] if table.autonamed else [])} <= set(table.inputs)


@EVERY
def test_an_input_that_the_sdk_documents_as_replacing_replaces(table: Table) -> None:
    for path, text in _documented(sdk.arguments(table.sdk)):
        if path in table.inputs and _FORCES.search(text) and not _ONLY.search(text):
            assert table.is_replaced_by(path), text


_FORCES = re.compile(r"(?i)forces? (?:a )?(?:new resource|recreation)|force recreation|forces replacement")
# Said of one kind of change, or of the field in another resource.
_ONLY = re.compile(r"(?i)\b(?:when|if|from|unless|removing|disabling)\b[^.]*forc|not forc|in-place")


def _documented(cls: type, path: str = "") -> Iterator[tuple[str, str]]:
    for name, field in sdk.fields(cls).items():
        below = f"{path}.{name}" if path else name
        getter = next(
            (each for each in vars(cls).values() if getattr(getattr(each, "fget", None), "_pulumi_name", 0) == name),
            None,
        )
        yield below, inspect.getdoc(getter) or ""
        kind = field.type
        for inner in (kind, *getattr(kind, "__args__", ())):
            inner = sdk.bare(inner)
            if sdk.is_object(inner) and below.count(".") < 4:
                yield from _documented(inner, below)
