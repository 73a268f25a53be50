"""Nodes that their owner describes are treated as those of a machine table, wherever a pool is used."""

from pathlib import Path
from typing import Final

import pytest

from muster.config import load
from muster.model.names import GPU_RESOURCE
from muster.model.pools import Pool
from muster.model.stack import Stack
from muster.render import gang
from muster.validation import STACK_RULES
from tests.unit.model.model_stacks import nominal_quotas, parsed, pool_of, specs

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "on-premises" / "stacks" / "Pulumi.datacenter.yaml"
_STACK: Final = """\
config:
  muster:cluster: {provider: existing, name: own, context: own, autoscaler: none}
  muster:scheduler: %s
  muster:pools:
    cpu: {node: {cpu: 60, memory: 240Gi}, maxNodes: 2}
    gpu: {node: {cpu: 96, memory: 1Ti, gpus: 8, %s}, maxNodes: 4}
  muster:departments: {research: {teams: {team-a: {quota: {gpu: 32}}}}}
"""


def _stack(gpu: str, scheduler: str = "kueue") -> Stack:
    return parsed(_STACK % (scheduler, gpu))


def _pool(gpu: str) -> Pool:
    return pool_of(_stack(gpu), "gpu")


@pytest.mark.parametrize(
    ("gpu", "name", "memory"),
    [
        ("accelerator: nvidia-h100-80gb", "nvidia-h100-80gb", 81559),
        ("accelerator: h100", "nvidia-h100-80gb", 81559),
        ("accelerator: h100, gpuMemory: 94Gi", "nvidia-h100-80gb", 94 * 1024),
        ("accelerator: nvidia-l40s, gpuMemory: 46068Mi", "nvidia-l40s", 46068),
    ],
)
def test_a_gpu_has_a_name_and_a_memory(gpu: str, name: str, memory: int) -> None:
    accelerator = _pool(gpu).accelerator
    assert accelerator is not None
    assert (accelerator.name, accelerator.memory_mib) == (name, memory)


def test_a_gpu_that_no_table_has_is_between_those_of_less_and_of_more_memory() -> None:
    ranks = [
        pool.accelerator.rank
        for pool in (
            _pool("accelerator: a100"),
            _pool("accelerator: nvidia-a40, gpuMemory: 48Gi"),
            _pool("accelerator: a100-80gb"),
        )
        if pool.accelerator
    ]
    assert ranks == sorted(set(ranks))
    assert len(ranks) == 3


def test_the_example_is_right() -> None:
    stack = load(EXAMPLE)
    assert [str(each) for rule in STACK_RULES for each in rule(stack)] == []
    flavors = specs(stack, "ResourceFlavor")
    assert flavors["h100"] == {
        "nodeLabels": {"example.com/fabric": "infiniband", "muster.dev/pool": "h100"},
        "nodeTaints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
    }
    assert flavors["cpu"] == {"nodeLabels": {"muster.dev/pool": "cpu"}}
    by_flavor = nominal_quotas(stack, "vision")
    assert [*by_flavor] == ["cpu", "l40s", "h100"]
    assert by_flavor["h100"] == {"cpu": "380", "memory": "3800Gi", GPU_RESOURCE: "16"}
    assert by_flavor["l40s"]["memory"] == "1000Gi"
    flavor = next(each for each in gang.gang_policy(stack).flavors if each.name == "l40s")
    assert (flavor.gpus_per_node, flavor.max_nodes, flavor.gpu_memory) == (4, 6, 48 * 1024)
    assert flavor.verify_nodes
    assert flavor.per_node == {"cpu": "60", "memory": "500Gi"}


def test_kai_has_the_same_quota() -> None:
    made = specs(_stack("accelerator: h100", "kai"), "Queue")
    assert made["team-a"]["resources"]["gpu"]["quota"] == 32


def test_a_quota_brings_its_part_of_what_else_a_node_has() -> None:
    text = (_STACK % ("kueue", "accelerator: h100")).replace(
        "maxNodes: 4", "maxNodes: 4, resources: {rdma/ib: 8}"
    )
    text = text.replace("{gpu: 32}}", "{gpu: 24}, borrow: {gpu: 4}}, team-b: {quota: {gpu: 8}}")
    stack = parsed(text)
    (group,) = specs(stack, "ClusterQueue")["team-a"]["resourceGroups"]
    assert "rdma/ib" in group["coveredResources"]
    quotas = {each["name"]: {one["name"]: one for one in each["resources"]} for each in group["flavors"]}
    assert quotas["gpu"]["rdma/ib"] == {"name": "rdma/ib", "nominalQuota": "24", "borrowingLimit": "4"}
    assert quotas["cpu"]["rdma/ib"]["nominalQuota"] == "0"
    (flavor,) = (each for each in gang.gang_policy(stack).flavors if each.name == "gpu")
    assert flavor.node["rdma/ib"] == 8
