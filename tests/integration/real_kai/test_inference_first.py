"""NVIDIA's example of Ray with KAI, on a pool that has no more nodes: inference takes its GPUs from training.

The gang reaches the real KAI 0.12.0 once nodes are late, and KAI evicts training as a whole. By
ProvisioningRequests and by placeholders; within a queue and across queues. MUSTER_KAI_WORLDS: how many worlds
are drawn for each of the two.
"""

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import pytest

from muster.model.gangpolicy import GangPolicy, KaiPolicy, OverQuota, RetryPolicy
from muster.model.stack import Stack
from muster.render.gang import gang_policy
from tests import built
from tests.integration.pod_autoscaler import PLACEHOLDERS, scheduler
from tests.integration.real_kai.bodies import POOL, Gang
from tests.integration.real_kai.placed import ask_by_placeholders
from tests.integration.real_kai.test_placeholders import Cloud
from tests.integration.real_kai.world import World

_WORLDS: Final = int(os.environ.get("MUSTER_KAI_WORLDS", "3"))
_FIRST: Final = int(os.environ.get("MUSTER_KAI_FIRST_WORLD", "0"))
_RETRY: Final = RetryPolicy(base=timedelta(seconds=5), max=timedelta(seconds=10))
_AFTER: Final = timedelta(seconds=5)


@dataclass(slots=True)
class Scene:
    """`step` is the cloud's, where the test plays it. `nodes`: how many GPU nodes there were at most."""

    world: World
    step: Callable[[], object]
    nodes: int = 0

    def eventually(self, what: str, reached: Callable[[], object]) -> None:
        self.world.eventually(what, reached, self.step)
        found = self.world.items("/api/v1/nodes")
        self.nodes = max(self.nodes, sum(each["metadata"]["name"] != "cpu-0" for each in found))

    def submit(self, name: str, workers: int, priority: str, *, queue: str = "notebooks") -> None:
        self.world.submit(name, queue=queue, gang=Gang(workers=workers), priority=priority)

    def runs(self, name: str, workers: int, why: str) -> None:
        self.eventually(why, lambda: self.world.bound(name) == workers + 1)


Begin = Callable[[int, OverQuota, timedelta], Scene]


@pytest.fixture(params=["requests", "placeholders"])
def begin(world: World, stack: Stack, request: pytest.FixtureRequest) -> Iterator[Begin]:
    """Starts with a stock of nodes."""
    if request.param == "requests":
        yield lambda stock, over, after: _by_requests(world, gang_policy(stack), stock, over, after)
        return
    with scheduler(world.server, built.programs(("kube-scheduler",))):

        def placed(stock: int, over: OverQuota, after: timedelta) -> Scene:
            kai = KaiPolicy(over_quota=over, preempt_after=after)
            ask_by_placeholders(world, stack, retry=_RETRY, kai=kai)
            world.ours.start_manager(world.server.kubeconfig())
            cloud = Cloud(world.server, world=world)
            cloud.stock[POOL] = stock
            return Scene(world, cloud.step)

        yield placed
        world.server.call("DELETE", f"{PLACEHOLDERS}?gracePeriodSeconds=0")


def _by_requests(world: World, policy: GangPolicy, stock: int, over: OverQuota, after: timedelta) -> Scene:
    kai = KaiPolicy(over_quota=over, preempt_after=after)
    world.govern(replace(policy, retry=_RETRY, kai=kai))
    classes = tuple(each.provisioning_class_name for each in policy.flavors if each.gpus_per_node)
    # Longer than KAI takes, on a busy machine, from the end of a victim to the start of what takes its nodes.
    world.offer(stock=stock, classes=classes, scale_down="20s")
    world.start_ours()
    return Scene(world, lambda: None)


@pytest.mark.parametrize("over", list(OverQuota))
@pytest.mark.parametrize(("workers", "needed"), [(4, 2), (1, 1)])
def test_inference_takes_its_gpus_from_training_which_returns_whole(
    begin: Begin, over: OverQuota, workers: int, needed: int
) -> None:
    scene = begin(workers, over, _AFTER)
    scene.submit("training", workers, "train")
    scene.runs("training", workers, "training runs on all there is")
    scene.submit("inference", needed, "inference")
    scene.runs("inference", needed, "inference runs")
    assert scene.world.bound("training") == 0, "training was evicted as a whole"
    scene.world.end("inference")
    scene.runs("training", workers, "training is back, whole")
    assert scene.nodes <= workers, "no node is bought for a gang that takes another's"


def test_inference_starts_beside_training_where_nodes_come(begin: Begin) -> None:
    scene = begin(8, OverQuota.DENY, timedelta(minutes=5))
    scene.submit("training", 4, "train")
    scene.runs("training", 4, "training runs")
    scene.submit("inference", 2, "inference")
    scene.runs("inference", 2, "inference runs")
    assert scene.world.bound("training") == 5


def test_a_team_within_its_quota_reclaims_what_another_has_beyond_its_own(begin: Begin) -> None:
    scene = begin(8, OverQuota.ALLOW, _AFTER)
    scene.submit("borrower", 8, "train")
    scene.runs("borrower", 8, "notebooks borrow four GPUs beyond their quota of four")
    scene.submit("owner", 4, "train", queue="training")
    scene.runs("owner", 4, "training has its quota")
    assert scene.world.bound("borrower") == 0, "a gang goes as a whole"
    scene.world.end("owner")
    scene.runs("borrower", 8, "the borrower is back, whole")


@pytest.mark.parametrize("number", range(_FIRST, _FIRST + _WORLDS))
def test_drawn_gangs_pass_whole_or_not_at_all(begin: Begin, number: int) -> None:
    """Training fills the stock with one or two gangs; one gang comes that may take what some of them hold."""
    dice = random.Random(number)
    first = dice.randint(1, 3)
    sizes = [first] if dice.random() < 0.5 else [first, dice.randint(1, 4 - first)]
    stock, wanted = sum(sizes), dice.randint(1, sum(sizes))
    scene = begin(stock, OverQuota.DENY, timedelta(seconds=1))
    for index, size in enumerate(sizes):
        scene.submit(f"train-{index}", size, "train")
        scene.runs(f"train-{index}", size, "training runs")
    priority = dice.choice(("inference", "build", "build-preemptible"))
    scene.submit("taker", wanted, priority)
    scene.runs("taker", wanted, f"{priority} takes {wanted} of {stock}, from {sizes}")
    # Pods of a victim end one after another, and what fits beside the taker starts again.
    scene.eventually(
        "none is left in part",
        lambda: all(scene.world.bound(f"train-{index}") in (0, size + 1) for index, size in enumerate(sizes)),
    )
    scene.world.end("taker")
    for index, size in enumerate(sizes):
        scene.runs(f"train-{index}", size, "training is back, whole")
    assert scene.nodes <= stock
