"""Every input of a resource against the SDK, its table, the API's definition and the documented rules."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from muster.provider.provider import UNKNOWN
from tests.clouds.standin import sdk
from tests.clouds.standin.definition import complaints, deprecation
from tests.clouds.standin.deprecated import allowed
from tests.clouds.standin.refusal import Refusal
from tests.clouds.standin.table import Own, Pairs, Table, api_fields
from tests.clouds.standin.values import Inputs, leaves

_INDEX: Final = re.compile(r"\[\d+\]")
_KEY: Final = re.compile(r'\["([^"]*)"\]')

Rule = Callable[[Inputs], Iterator[Refusal]]


def judge(
    table: Table, inputs: Inputs, rules: Mapping[str, Rule], *, takes_deprecated: bool = False
) -> list[Refusal]:
    """All that is wrong; empty when the clouds would take it. What a preview does not know yet is let by.

    takes_deprecated: as for a customer who had it before it was deprecated.
    """
    found = list(sdk.refusals(sdk.arguments(table.sdk), inputs))
    wrong = {refusal.path for refusal in found}
    for path, value in leaves(dict(inputs)):
        if path not in wrong and value != UNKNOWN:
            found += _placed(table, path, value)
            found += () if takes_deprecated else _deprecated(table, path, value)
    if not found:
        for rule in rules.values():
            found += rule(inputs)
    return found


def dotted(path: str) -> str:
    """A path as tables have it: no indices, keys as steps."""
    return _KEY.sub(r".\1", _INDEX.sub("", path))


def _placed(table: Table, path: str, value: Any) -> Iterator[Refusal]:
    place = table.place(_table_path(table, path))
    if place is None:
        yield Refusal(path, f"no table maps this input of {table.token}: look it up and add it")
        return
    if value in ({}, []):
        return
    fields = api_fields(table, place)
    key = path.rpartition(".")[2] if not path.endswith("]") else _KEY.findall(path)[-1:]
    if isinstance(place, Pairs):
        told = (key[0] if isinstance(key, list) and key else key, value)
        for field, each in zip(fields, told, strict=True):
            yield from (Refusal(path, reason) for reason in complaints(field, each))
        return
    (field,) = fields
    if field.kind == "map" or (isinstance(place, Own) and field.kind == "any"):
        return
    yield from (Refusal(path, reason) for reason in complaints(field, value))


def _deprecated(table: Table, path: str, value: Any) -> Iterator[Refusal]:
    there = _table_path(table, path)
    place = table.place(there)
    if place is None or allowed(table.token, there) is not None:
        return
    if sdk.is_deprecated(sdk.arguments(table.sdk), there):
        yield Refusal(path, f"{table.sdk} calls it deprecated")
    for field in api_fields(table, place):
        if (reason := deprecation(field, value)) is not None:
            yield Refusal(path, reason)


def _table_path(table: Table, path: str) -> str:
    """Steps down to the mapping that holds the leaf: a mapping's keys are the user's, not inputs."""
    kind: Any = sdk.arguments(table.sdk)
    taken: list[str] = []
    for step in _KEY.sub("", _INDEX.sub("", path)).split("."):
        taken.append(step)
        kind = sdk.at(sdk.arguments(table.sdk), ".".join(taken))
        if sdk.is_mapping(kind):
            break
    return ".".join(taken)
