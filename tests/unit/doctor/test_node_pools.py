"""The doctor finds the NodePools of Karpenter that keep, and bill, the nodes of a gang that failed, and nodes
that are set aside.
"""

from typing import Any

import pytest

from muster.cloud.doctor.findings import Finding, State
from muster.cloud.doctor.machines import check_broken_nodes, check_node_pools
from muster.kubernetes.client import Client
from muster.kubernetes.errors import ApiError
from muster.kubernetes.kubeconfig import Access
from muster.local.karpenter import node_pool
from muster.model.clusters import Provider
from muster.model.names import BROKEN_TAINT_KEY
from muster.model.stack import Stack
from tests.unit.model.model_stacks import new_stack
from tests.unit.preview.http_world import Asked, Reply, serving

NODE = {"cpu": 190, "memory": "1900Gi", "gpus": 8, "accelerator": "nvidia-h100-80gb"}


def existing(autoscaler: str = "karpenter") -> Stack:
    cluster = {"provider": "existing", "name": "here", "context": "here", "autoscaler": autoscaler}
    pools = {
        "cpu": {"machine": "local-cpu", "minNodes": 1, "maxNodes": 1},
        "h100": {"node": NODE, "maxNodes": 8},
    }
    departments = {"research": {"teams": {"team-b": {"quota": {"h100": 64}}}}}
    more: dict[str, Any] = {"cluster": cluster, "pools": pools, "departments": departments}
    return new_stack(Provider.EXISTING, scheduler="kueue", **more)


def found(known: Stack, *node_pools: dict[str, Any], status: int = 200) -> list[Finding]:
    def answer(asked: Asked) -> Reply:
        assert asked.path.partition("?")[0] == "/apis/karpenter.sh/v1/nodepools"
        return Reply(status, {"metadata": {}, "items": list(node_pools)})

    with serving(answer) as server:
        return list(check_node_pools(known, Client(Access(server=server.url))))


def disrupted(**disruption: Any) -> dict[str, Any]:
    made = node_pool("h100", ["p5.48xlarge"])
    made["spec"]["disruption"] |= disruption
    return made


def test_a_node_pool_that_never_consolidates_is_named_with_the_command_that_mends_it() -> None:
    (finding,) = found(existing(), disrupted(consolidateAfter="Never"))

    assert (finding.check, finding.state) == ("empty nodes", State.FAILED)
    assert "NodePool h100 keeps empty nodes" in finding.message
    assert "paid for" in finding.message
    assert "kubectl patch nodepool h100 --type merge -p " in finding.fix
    assert '"consolidateAfter":"1m"' in finding.fix


@pytest.mark.parametrize("budget", [{"nodes": "0"}, {"nodes": "0%", "reasons": ["Drifted", "Empty"]}])
def test_a_budget_that_never_lets_an_empty_node_go_keeps_it_too(budget: dict[str, Any]) -> None:
    (finding,) = found(existing(), disrupted(budgets=[{"nodes": "100%"}, budget]))

    assert finding.state is State.FAILED
    assert "budget of 0 nodes" in finding.fix


@pytest.mark.parametrize(
    "budget",
    [
        {"nodes": "10%"},
        {"nodes": "0", "reasons": ["Drifted", "Underutilized"]},
        {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"},
    ],
)
def test_a_budget_that_lets_empty_nodes_go_at_times_passes(budget: dict[str, Any]) -> None:
    (finding,) = found(existing(), disrupted(budgets=[budget]))

    assert (finding.state, finding.message) == (State.OK, "taken away by NodePools h100")


def test_a_pool_is_found_by_a_requirement_as_well_as_by_a_label() -> None:
    made = disrupted(consolidateAfter="Never")
    made["metadata"]["name"] = "shared"
    del made["spec"]["template"]["metadata"]["labels"]
    required = {"key": "muster.dev/pool", "operator": "In", "values": ["other", "h100"]}
    made["spec"]["template"]["spec"]["requirements"].append(required)

    (finding,) = found(existing(), made)

    assert "NodePool shared" in finding.message


def test_node_pools_that_buy_nothing_for_a_gang_are_no_concern() -> None:
    other = node_pool("web", ["g6.8xlarge"], consolidate_after="Never")
    fixed = disrupted(consolidateAfter="Never")
    fixed["spec"]["replicas"] = 2

    assert found(existing(), other, fixed) == []


def test_without_karpenter_or_placeholders_there_is_no_finding() -> None:
    assert found(existing(), status=404) == []
    assert found(existing(autoscaler="none"), disrupted(consolidateAfter="Never")) == []


def test_a_refused_read_is_an_error_and_no_pass() -> None:
    with pytest.raises(ApiError, match="403"):
        found(existing(), status=403)


def test_nodes_that_are_set_aside_are_listed_with_their_sign_and_who_repairs_them() -> None:
    taint = {"key": BROKEN_TAINT_KEY, "value": "condition-SysLogsXIDError-True", "effect": "NoSchedule"}
    broken = {
        "metadata": {"name": "gpu-7", "labels": {"karpenter.sh/nodepool": "h100"}},
        "spec": {"taints": [taint]},
    }
    with serving(
        lambda _: Reply(200, {"metadata": {}, "items": [broken, {"metadata": {"name": "gpu-8"}}]})
    ) as server:
        (finding,) = check_broken_nodes(Client(Access(server=server.url)))
    assert finding.state is State.FAILED
    assert finding.message == "node gpu-7 is set aside: condition-SysLogsXIDError-True"
    assert finding.fix.startswith("Karpenter repairs it")
