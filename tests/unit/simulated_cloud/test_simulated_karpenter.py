"""Behind Karpenter the simulated cloud has the stock and the machines, and buys and releases nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from muster.config import load
from muster.local import karpenter
from muster.local.karpenter import stock_key
from muster.local.quantities import milli
from muster.local.simulated_cloud import names
from muster.local.simulated_cloud.actions import Action, AdvertiseGpus, ReleaseNode, SetStock, StartVm
from muster.local.simulated_cloud.faults import ANY_POOL, Fault, FaultBook, FaultKind
from muster.local.simulated_cloud.objects import Node, VmState
from muster.local.simulated_cloud.offering import Kind, Offering, OfferingError, Pool, read
from muster.paths import KARPENTER_POOLS
from tests.unit.simulated_cloud.world import START, offering, pool

STACK: Final = Path(__file__).parents[3] / "stacks" / "Pulumi.local-karpenter.yaml"
H100 = stock_key("h100", "local")
L4 = stock_key("l4", "local")


def bought_by_karpenter(name: str, **changes: Any) -> Pool:
    return replace(pool(name, classes=frozenset()), **changes)


def both(**changes: Any) -> Offering:
    return offering(bought_by_karpenter("h100", stock=4, **changes), bought_by_karpenter("l4", stock=2))


def decided(*nodes: Node, faults: FaultBook | None = None, now: float = START) -> list[Action]:
    """Without what is about the stock, which these tests have written already."""
    found = karpenter.decide(both(), nodes=nodes, cloud=stocked(), faults=faults or FaultBook(), now=now)
    return [action for action in found if not isinstance(action, SetStock)]


def stocked(*faults: Fault, now: float = START, cloud: dict[str, str] | None = None, **own: int) -> Any:
    """The stock that is written; what is there already where nothing is."""
    book = FaultBook(faults, own)
    actions = karpenter.decide(both(), nodes=(), cloud=cloud or {}, faults=book, now=now)
    return next((action.data for action in actions if isinstance(action, SetStock)), cloud)


def node(vm: VmState | None, **changes: Any) -> Node:
    made = Node(name="h100-x", uid="1", pool="h100", vm=vm, created=START)
    return replace(made, **changes)


def test_the_stock_is_the_pools_unless_a_command_has_changed_it() -> None:
    assert (stocked()[H100], stocked()[L4]) == ("4", "2")
    assert (stocked(h100=1)[H100], stocked(h100=1)[L4]) == ("1", "2")


def test_a_stock_out_lasts_as_long_as_the_fault_and_hits_its_pool_alone() -> None:
    fault = Fault("f", "h100", FaultKind.STOCK_OUT, start=START, end=START + 60)
    before, after = START - 1, START + 60
    assert [stocked(fault, now=now)[H100] for now in (before, START, after)] == ["4", "0", "4"]
    assert stocked(fault)[L4] == "2"
    assert stocked(replace(fault, pool=ANY_POOL))[L4] == "0"


def test_a_stock_that_is_written_is_not_written_again() -> None:
    written = {**stocked(), "error": "set by hand"}
    assert karpenter.decide(both(), nodes=(), cloud=written, faults=FaultBook(), now=START) == []


def test_a_node_that_karpenter_bought_gets_its_machine_and_then_its_gpus() -> None:
    registered = {"ready": True, "registered": True}
    gpus = {names.GPU: 1000}
    assert decided(node(VmState.REQUESTED)) == [StartVm("h100-x")]
    assert decided(node(VmState.RUNNING)) == []
    assert decided(node(VmState.RUNNING, **registered)) == [AdvertiseGpus("h100-x", 1)]
    assert decided(node(VmState.RUNNING, **registered, advertised=gpus)) == []


def test_a_node_without_a_machine_goes_and_an_empty_one_is_karpenters_to_release() -> None:
    (action,) = decided(node(VmState.FAILED))
    assert isinstance(action, ReleaseNode)
    idle = node(VmState.RUNNING, ready=True, registered=True, advertised={names.GPU: 1000})
    assert decided(idle, now=START + 86_400) == []
    assert decided(node(None)) == [], "a node of somebody else"


def test_each_pool_is_a_node_pool_with_a_class_of_its_own() -> None:
    found = karpenter.manifests(both(provision_delay=7.0, max_nodes=3))
    pools = {each["metadata"]["name"]: each for each in found if each["kind"] == "NodePool"}
    classes = {each["metadata"]["name"]: each for each in found if each["kind"] == "KWOKNodeClass"}
    template = pools["h100"]["spec"]["template"]
    assert set(pools) == set(classes) == {"h100", "l4"}
    assert classes["h100"]["spec"]["nodeRegistrationDelay"] == "7s"
    assert pools["h100"]["spec"]["limits"] == {names.GPU: "3"}
    assert template["metadata"]["labels"][names.POOL_LABEL] == "h100"
    assert template["spec"]["nodeClassRef"]["name"] == "h100"
    assert template["metadata"]["annotations"] == {names.VM: "requested"}


def test_a_pool_of_kwok_has_no_machines() -> None:
    found = karpenter.manifests(offering(bought_by_karpenter("fake", kind=Kind.KWOK)))
    (made,) = (each for each in found if each["kind"] == "NodePool")
    assert "annotations" not in made["spec"]["template"]["metadata"]


@pytest.mark.parametrize(
    "wrong", [{"classes": frozenset({names.QUEUED})}, {"on_demand": True}, {"gpus": 0}], ids=str
)
def test_a_pool_that_karpenter_cannot_fill_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OfferingError, match="pool l4: Karpenter fills only pools"):
        karpenter.instance_types(offering(bought_by_karpenter("l4", **wrong)))


def test_the_pools_that_muster_ships_are_those_of_the_stack() -> None:
    offered = read(KARPENTER_POOLS)
    sold = {
        each.name: (each.gpus, milli(each.cpu), milli(each.memory))
        for each in karpenter.instance_types(offered)
    }
    wanted = {each.name: each for each in load(STACK).pools if each.gpus_per_node}
    assert sold == {
        name: (each.gpus_per_node, each.machine.cpu, each.machine.memory * 1000)
        for name, each in wanted.items()
    }
    assert {name: each.max_nodes for name, each in offered.pools.items()} == {
        name: each.max_nodes for name, each in wanted.items()
    }
