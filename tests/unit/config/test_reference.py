"""The reference of the stack file: it has every key, and what it says about a key is true."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from muster.cli import main
from muster.config.document import NAMESPACE, Document
from muster.config.schema import stack_schema
from muster.config.schema.keys import ITEM, Key, find_keys, stack_keys
from muster.config.stack import examine
from muster.errors import ExitCode
from muster.model.regions import Provider
from release.reference.stack_file import PAGES

SCHEMA: Final = stack_schema()
VALIDATOR: Final = Draft202012Validator(SCHEMA)
KEYS: Final = stack_keys()
# What a reader answers to a value of the wrong kind.
_MALFORMED: Final = ("must be", "not a key", "not allowed", "not a field", "unknown", "is missing")
# What the examples name.
_STACK: Final[dict[str, Any]] = {
    "cluster": {"provider": "existing", "name": "a", "context": "a"},
    "pools": {
        "cpu": {"machine": "e2-standard-8", "maxNodes": 8},
        "l4": {"machine": "g2-standard-8", "maxNodes": 8},
        "h100": {"machine": "a3-highgpu-8g", "maxNodes": 8},
    },
    "priorities": {"prod": 1000, "dev": 100},
    "departments": {"research": {"teams": {"team-a": {"quota": {"l4": 1}}, "vision": {}}}},
    "kueue": {
        "topologies": {"racks": ["example.com/rack"]},
        "flavors": {"on-premises": {}},
        "admissionChecks": {"budget": {"controllerName": "example.com/budget"}},
    },
}
# Of what a provider's cluster needs one of several keys.
_CLUSTERS: Final[dict[str, dict[str, object]]] = {
    "gke": {"region": "us-central1"},
    "eks": {"zones": ["us-east-1a", "us-east-1b"]},
    "existing": {"context": "a"},
}
_NAMES: Final = {"POOL": "l4", "DEPARTMENT": "research", "TEAM": "team-a"}
# Mappings of which the model keeps what is written. test_schema.py and the catalogue have their defaults.
_MERGED: Final = ("tenancy.objects", "tenancy.sizes", "versions")
# What has to be beside a key.
_BESIDE: Final[dict[str, dict[str, object]]] = {
    "pools.POOL.shares": {"sharing": "time-slicing"},
    "pools.POOL.migProfile": {"sharing": "mig", "machine": "a3-highgpu-8g"},
    "pools.POOL.node.gpus": {"accelerator": "nvidia-l4"},
    "pools.POOL.node.accelerator": {"gpus": 8},
    "pools.POOL.node.gpuMemory": {"gpus": 8, "accelerator": "nvidia-l4"},
}


def declared(node: Any) -> Iterator[str]:
    """The names of all keys of the schema, found without the code that lists them."""
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict) and "if" not in node:
            yield from node["properties"]
        for name, below in node.items():
            if name not in ("if", "examples", "default"):
                yield from declared(below)
    elif isinstance(node, list):
        for below in node:
            yield from declared(below)


def test_every_key_of_the_schema_is_in_the_reference() -> None:
    config = SCHEMA["properties"]["config"]
    names = {name.removeprefix(NAMESPACE) for name in declared([config, SCHEMA["$defs"]])}
    assert names - {key.name for key in KEYS} == set()
    text = "".join(page() for page in PAGES.values())
    for key in KEYS:
        assert f'<a id="{f"{key.provider}." if key.provider else ""}{key.path}"></a>' in text


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.provider or 'every'}-{key.path}")
def test_an_example_is_accepted_by_the_schema_and_by_the_reader(key: Key) -> None:
    assert key.example is not None, "give it an example: key(..., example=...)"
    values = stack_with(key)
    root = f"{NAMESPACE}{key.path.split('.')[0]}"
    refused = [error.message for error in VALIDATOR.iter_errors({"config": values})]
    assert refused == []
    errors = [each for each in examine(Document("stack", values))[1] if each.level == "error"]
    found = [each for each in errors if each.path.startswith(root)]
    assert [str(each) for each in found if any(word in each.message for word in _MALFORMED)] == []


DEFAULTS: Final = [key for key in KEYS if key.value is not None and key.parent not in _MERGED]


def test_most_keys_with_a_default_declare_its_value() -> None:
    assert len(DEFAULTS) > 80


@pytest.mark.parametrize("key", DEFAULTS, ids=lambda key: f"{key.provider or 'every'}-{key.path}")
def test_the_default_of_the_declaration_is_what_the_reader_has_without_the_key(key: Key) -> None:
    written, _ = examine(Document("stack", stack_with(key, {key.name: key.value})))
    absent, _ = examine(Document("stack", stack_with(key, {})))
    assert written == absent
    assert written is not None


def stack_with(key: Key, entry: dict[str, object] | None = None) -> dict[str, object]:
    """A stack that has the example of one key, or `entry` in place of it."""
    own = {key.name: key.example, **_BESIDE.get(key.path, {})}
    value: dict[str, Any] = own if entry is None else entry
    path, names = key.parent, _NAMES
    if key.path.startswith("pools.POOL.node"):
        names = _NAMES | {"POOL": "own"}  # a pool without a machine
    while path:
        beside = [each for each in KEYS if each.parent == path and each.provider in (key.provider, None)]
        value = {each.name: each.example for each in beside if each.required} | value
        path, _, name = path.rpartition(".")
        while name.isupper():
            value = {names.get(name, name.lower()): value}
            path, _, name = path.rpartition(".")
        value = {name.removesuffix(ITEM): [value] if name.endswith(ITEM) else value}
    if "cluster" in value:
        value["cluster"] = _CLUSTERS[value["cluster"]["provider"]] | value["cluster"]
    stack = {name: each for name, each in _STACK.items() if name != "cluster" or name not in value}
    if key.provider is Provider.EKS:
        stack["pools"] = {"cpu": {"machine": "m6i.2xlarge", "maxNodes": 8}}
    return {f"{NAMESPACE}{name}": each for name, each in merged(stack, value).items()}


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {
        name: merged(below[name], each)
        for name, each in above.items()
        if isinstance(each, dict) and isinstance(below.get(name), dict)
    }
    return below | above | both


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("pools.l4.machine", ["pools.POOL.machine"]),
        ("muster:pools.machine", ["pools.POOL.machine"]),
        ("bootDiskGiB", ["pools.POOL.bootDiskGiB"]),
        ("pools.a.networks[0].network", ["pools.POOL.networks[].network"]),
        ("cluster.kmsKey", ["cluster.kmsKey", "cluster.kmsKey"]),
        ("cluster.authorizedNetworks.office", ["cluster.authorizedNetworks"]),
        ("departments.a.departments.b.teams.c.members", ["departments.DEPARTMENT.teams.TEAM.members"]),
        ("kai.pools.l4.args", ["kai.shard.args"]),
        ("pools.l4.machine.size", []),
        ("cluster.network.office", []),
    ],
)
def test_a_key_is_found_by_its_path(query: str, paths: list[str]) -> None:
    assert [key.path for key in find_keys(query)] == paths


def test_a_key_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pools.bootDiskGiB"]) == 0
    printed = capsys.readouterr().out
    for word in ("in GiB", "from 30 to 16,384", "Default:  200", "bootDiskGiB: 500"):
        assert word in printed
    assert main(["explain", "pools.bootDiskGiB", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["keys"]
    assert (record["default"], record["example"]) == ("200", {"bootDiskGiB": 500})


def test_the_keys_of_the_first_level_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [key.path for key in KEYS if not key.parent]


def test_an_unknown_key_is_answered_with_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    for asked in ("pools.l4.machin", "pools.maschine"):
        assert main(["explain", asked]) == ExitCode.UNUSABLE
        assert "did you mean 'machine'?" in capsys.readouterr().err
    assert main(["explain", "pools.l4"]) == 0
