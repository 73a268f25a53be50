"""Which of two pools gets work first does not depend on their names."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.config import load, parse
from muster.model.stack import Stack
from muster.render import gang
from tests.unit.model.model_stacks import nominal_quotas, parsed, stack_text

# Sorted by name, every pair of pools is in the wrong order.
POOLS: dict[str, dict[str, Any]] = {
    "a-spot": {"machine": "p5.48xlarge", "capacity": "spot"},
    "b-bought": {"machine": "p5.48xlarge", "capacity": "on-demand"},
    "c-queued": {"machine": "p5.48xlarge", "capacity": "queued"},
    "d-paid": {"machine": "p5.48xlarge", "capacity": "reservation", "reservation": "cr-0a1b2c3d4e5f67890"},
    "e-common": {"machine": "g6.12xlarge", "capacity": "spot"},
    "z-cpu": {"machine": "m6i.4xlarge"},
}
BEST_FIRST = ["z-cpu", "e-common", "d-paid", "c-queued", "b-bought", "a-spot"]


def text_of(pools: dict[str, dict[str, Any]]) -> str:
    quota = {name: 8 for name in pools if not name.endswith("cpu")}
    cluster = {"provider": "eks", "name": "ml", "region": "us-east-1", "publicCidrs": ["8.8.8.0/24"]}
    return stack_text(
        {
            "cluster": {**cluster, "zones": ["us-east-1a", "us-east-1b"]},
            "pools": {name: {"maxNodes": 4, "zones": ["us-east-1a"], **pool} for name, pool in pools.items()},
            "departments": {"all": {"teams": {"t": {"quota": quota}}}},
        }
    )


def stack_of(pools: dict[str, dict[str, Any]]) -> Stack:
    return parsed(text_of(pools))


def flavors(stack: Stack) -> list[str]:
    """The flavors in the order in which Kueue tries them."""
    return [*nominal_quotas(stack, "t")]


def test_paid_capacity_comes_before_bought_and_spot_last() -> None:
    stack = stack_of(POOLS)
    assert flavors(stack) == BEST_FIRST
    assert [each.name for each in gang.gang_policy(stack).flavors] == BEST_FIRST


def test_a_preference_precedes_accelerator_and_capacity_and_no_gpu_pool_precedes_a_cpu_pool() -> None:
    pools = {**POOLS, "a-spot": {**POOLS["a-spot"], "preference": 100}}
    pools["e-common"] = {**pools["e-common"], "preference": -1}
    assert flavors(stack_of(pools)) == ["z-cpu", "a-spot", "d-paid", "c-queued", "b-bought", "e-common"]


@pytest.mark.parametrize("names", [["one", "two"], ["two", "one"]])
def test_the_file_orders_equal_pools_also_where_the_engine_hands_them_over(
    tmp_path: Path, names: list[str]
) -> None:
    pools = {"cpu": POOLS["z-cpu"], **dict.fromkeys(names, POOLS["b-bought"])}
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(text_of(pools))
    handed_over = {
        key: dict(sorted(value.items())) for key, value in yaml.safe_load(path.read_text())["config"].items()
    }
    for stack in (load(path), parse(handed_over, source=path)):
        assert flavors(stack) == ["cpu", *names]


def test_the_order_of_an_extended_file_is_kept_and_new_pools_follow(tmp_path: Path) -> None:
    base = {"cpu": POOLS["z-cpu"], "two": POOLS["b-bought"], "one": POOLS["b-bought"]}
    (tmp_path / "base.yaml").write_text(text_of(base))
    path = tmp_path / "Pulumi.dev.yaml"
    more = {
        "muster:extends": "base",
        "muster:pools": {"more": {**POOLS["b-bought"], "maxNodes": 1, "zones": ["us-east-1a"]}},
        "muster:departments": {"all": {"teams": {"t": {"quota": {"more": 8}}}}},
    }
    path.write_text(yaml.safe_dump({"config": more}, sort_keys=False))
    for stack in (load(path), parse(more, source=path)):
        assert flavors(stack) == ["cpu", "two", "one", "more"]


def test_without_a_file_equal_pools_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    """The engine hands a program in another language its mappings in any order."""
    pools = {"cpu": POOLS["z-cpu"], "two": POOLS["b-bought"], "one": POOLS["b-bought"]}
    values = yaml.safe_load(text_of(pools))
    assert flavors(parse(values["config"], source=tmp_path / "none.yaml")) == ["cpu", "one", "two"]
