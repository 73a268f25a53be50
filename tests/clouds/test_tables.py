"""The tables against what they are tables of: the pinned SDKs and the clouds' own definitions."""

import pytest

from tests.clouds.standin import amazon, sdk
from tests.clouds.standin.table import Own, Pairs, Table, api_fields
from tests.clouds.standin.tables import TABLES

# Google's definitions do not say what is required.
OF_AWS = [table for table in TABLES.values() if table.token.startswith("aws:")]
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


@pytest.mark.parametrize("table", OF_AWS, ids=[table.token for table in OF_AWS])
def test_every_field_that_aws_requires_is_mapped(table: Table) -> None:
    service, _, operation = table.api.partition(":")
    places = {place.path if isinstance(place, Pairs) else place for place in table.inputs.values()}
    mapped = {
        str(place).rpartition("/")[2].partition(".")[0] for place in places if not isinstance(place, Own)
    }
    made = {"CreateOrUpdateTags": {"Tags"}, "SetQueueAttributes": {"Attributes"}}
    assert amazon.required(service, operation) - made.get(operation, set()) <= mapped


@EVERY
def test_what_a_table_refers_to_exists(table: Table) -> None:
    for path, tokens in table.refers.items():
        assert path in table.inputs
        assert set(tokens) <= set(TABLES)
    assert {*table.unique, *([table.autonamed] if table.autonamed else [])} <= set(table.inputs)


@EVERY
def test_what_the_cloud_fills_in_is_among_the_inputs(table: Table) -> None:
    for path in table.keeps:
        assert any(f"{each}.".startswith(f"{path}.") for each in table.inputs), path
