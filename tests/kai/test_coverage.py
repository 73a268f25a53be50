"""The model carries every field of KAI's API, or says why it leaves one out."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from muster.config import load
from muster.model.kai import PASSWORD
from muster.render import kai
from tests.kai.definitions import NOT_OURS, ours, schema, theirs

_EVERY: Final = Path(__file__).with_name("every-field.yaml")
# What a stack cannot have, with the reason. A path excludes everything below it.
_EXCLUDED: Final = {
    "PodGroup.spec": "is one gang's, not a stack's: KAI's grouper writes it from the labels of the work.",
    "SchedulingShard.spec.usageDBConfig.connectionString": f"{PASSWORD[0]}: {PASSWORD[1]}.",
}


def _fields(node: Mapping[str, Any], path: str) -> Iterator[str]:
    """The paths of a schema's fields; `*` stands for a name that a user chooses, or a place in a list."""
    below = [(f"{path}.{name}", each) for name, each in node.get("properties", {}).items()]
    others = node.get("additionalProperties") or node.get("items")
    if isinstance(others, dict) and others.get("properties"):
        below.append((f"{path}.*", others))
    if not below:
        yield path
    for name, each in below:
        yield from _fields(each, name)


def _values(value: Any, node: Mapping[str, Any], path: str) -> Iterator[str]:
    """The paths of what a manifest says, in the terms of its schema."""
    others = node.get("additionalProperties") or node.get("items")
    if isinstance(others, dict) and others.get("properties"):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _values(each, others, f"{path}.*")
    elif node.get("properties"):
        for name, each in value.items():
            yield from _values(each, node["properties"][name], f"{path}.{name}")
    else:
        yield path


def _left_out(path: str) -> bool:
    return any(path == each or path.startswith(f"{each}.") for each in _EXCLUDED)


def _rendered() -> dict[str, set[str]]:
    """kind -> the paths of all that a stack with every word renders."""
    stack = load(_EVERY)
    found: dict[str, set[str]] = {}
    for item in [*kai.queues(stack), *kai.shards(stack), *kai.topologies(stack)]:
        kind = item["kind"]
        definition = next(each for each in ours().values() if each["spec"]["names"]["kind"] == kind)
        spec = schema(definition)["properties"]["spec"]
        found.setdefault(kind, set()).update(_values(item["spec"], spec, f"{kind}.spec"))
    return found


@pytest.mark.parametrize("source", [ours, theirs])
def test_every_field_of_kai_is_carried_or_left_out_with_a_reason(source: Any) -> None:
    rendered = _rendered()
    for name, definition in source().items():
        if name in NOT_OURS:
            continue
        kind = definition["spec"]["names"]["kind"]
        known = set(_fields(schema(definition)["properties"]["spec"], f"{kind}.spec"))
        missing = {path for path in known - rendered.get(kind, set()) if not _left_out(path)}
        # The shard of all pools has no value; the tree with a shard a pool has (test_tree.py).
        assert missing <= {"SchedulingShard.spec.partitionLabelValue"}, missing
        assert not {path for path in rendered.get(kind, set()) if _left_out(path)}


def test_every_reason_is_about_a_field_that_exists() -> None:
    every = {
        path
        for definition in ours().values()
        for path in _fields(
            schema(definition)["properties"]["spec"], f"{definition['spec']['names']['kind']}.spec"
        )
    }
    for path, reason in _EXCLUDED.items():
        assert any(each == path or each.startswith(f"{path}.") for each in every), path
        assert reason.endswith(".")
