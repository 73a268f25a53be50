"""The hands on gated pods before a server that says no."""

import asyncio
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from muster.controller.gangs.create_errors import GateKept
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.requests import Requests
from muster.controller.gangs.retry import RetryHistory
from muster.controller.kai.actions import (
    Action,
    DeleteRunning,
    DeleteUnbound,
    PatchAnnotations,
    PatchCluster,
    Ungate,
)
from muster.controller.kai.executor import Executor
from muster.controller.kai.objects import GatedPod, RayCluster
from muster.controller.kube.errors import Invalid, TooManyRequests
from muster.controller.kube.resource import ObjectMeta
from muster.controller.runtime.events import EventRecorder
from tests.unit.controller_kube.fake_apiserver import FakeApiServer
from tests.unit.controller_kube.test_transport import _failing


def test_a_refusal_among_lifts_side_by_side_is_itself_with_the_pause_that_the_server_asks_for() -> None:
    """The queue goes by it, and so does the farewell, which tries again."""

    async def scenario() -> None:
        async with FakeApiServer().running() as server, server.client() as client:
            made = [
                server.put("pods", {"metadata": {"name": name, "namespace": "a"}}) for name in ("x", "y", "z")
            ]
            lifts = [
                Ungate(pod=msgspec.convert(each, GatedPod), annotations={}, node_selector={}) for each in made
            ]
            server.write_faults.append(lambda _: _failing(429, retry_after="40"))
            requests = cast(Requests, SimpleNamespace(remember=lambda resource, obj: obj))
            hands = Executor(client, events=cast(EventRecorder, None), requests=requests)
            with pytest.raises(TooManyRequests) as caught:
                await hands.run(lifts, cluster=RayCluster(), pod_group_demands=())
            assert caught.value.retry_after == 40

    asyncio.run(scenario())


def test_a_pod_that_nothing_was_asked_for_goes_back_with_the_others_of_its_batch() -> None:
    """A worker without a GPU consumes no request: to look for one without a name would end every try."""

    async def scenario() -> None:
        async with FakeApiServer().running() as server, server.client() as client:
            made = server.put("pods", {"metadata": {"name": "x", "namespace": "a"}})
            requests = cast(Requests, SimpleNamespace(remember=lambda resource, obj: obj))
            hands = Executor(client, events=cast(EventRecorder, None), requests=requests)
            recall = DeleteUnbound(pod=msgspec.convert(made, GatedPod), request="")
            await hands.run([recall], cluster=RayCluster(), pod_group_demands=())
            assert server.objects == {}

    asyncio.run(scenario())


def test_a_gang_that_takes_room_is_bounded_to_nodes_beside_what_its_pods_demand_already() -> None:
    """Terms are alternatives: one without the nodes would let the pod, and an autoscaler, go elsewhere."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    arm = {"matchExpressions": [{"key": "arch", "operator": "In", "values": ["arm64"]}]}
    other = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["bad"]}]}
    affinity = {"nodeAffinity": {required: {"nodeSelectorTerms": [arm, other]}}}

    async def scenario() -> None:
        async with FakeApiServer().running() as server, server.client() as client:
            metadata = {
                "name": "x",
                "namespace": "a",
                "annotations": {"karpenter.sh/do-not-disrupt": "false"},
            }
            made = server.put("pods", {"metadata": metadata, "spec": {"affinity": affinity}})
            requests = cast(Requests, SimpleNamespace(remember=lambda resource, obj: obj))
            hands = Executor(client, events=cast(EventRecorder, None), requests=requests)
            lift = Ungate(
                pod=msgspec.convert(made, GatedPod),
                annotations={"muster.dev/a": "b"},
                node_selector={},
                hosts=("n1", "n2"),
                is_undisturbed=True,
            )
            await hands.run([lift], cluster=RayCluster(), pod_group_demands=())
            (pod,) = server.objects.values()
            here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]}
            assert pod["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"] == [
                {"matchExpressions": [*arm["matchExpressions"], here]},
                {**other, "matchExpressions": [here]},
            ]
            assert pod["metadata"]["annotations"] == {
                "muster.dev/a": "b",
                "karpenter.sh/do-not-disrupt": "false",
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            }

    asyncio.run(scenario())


def test_a_gate_that_the_server_keeps_ends_the_attempt_in_its_words() -> None:
    async def scenario() -> None:
        async with FakeApiServer().running() as server, server.client() as client:
            made = server.put("pods", {"metadata": {"name": "x", "namespace": "a"}})
            server.write_faults.append(lambda _: _failing(403))
            hands = Executor(client, events=cast(EventRecorder, None), requests=Requests(client, caches={}))
            lift = Ungate(
                pod=msgspec.convert(made, GatedPod), annotations={ATTEMPT: "first"}, node_selector={}
            )
            with pytest.raises(GateKept, match="gate of pod a/x") as caught:
                await hands.run([lift], cluster=RayCluster(), pod_group_demands=())
            assert caught.value.attempt == "first"

    asyncio.run(scenario())


@pytest.mark.parametrize("on_its_pod", [False, True])
def test_what_a_gang_has_is_given_back_though_its_history_is_not_taken(on_its_pod: bool) -> None:
    async def scenario() -> None:
        async with FakeApiServer().running() as server, server.client() as client:
            made = server.put("pods", {"metadata": {"name": "x", "namespace": "a"}})
            server.write_faults.append(lambda _: _failing(422))
            hands = Executor(client, events=cast(EventRecorder, None), requests=Requests(client, caches={}))
            pod = msgspec.convert(made, GatedPod)
            history = RetryHistory(tries=1)
            note = PatchAnnotations(pod=pod, history=history, status="waits")
            back: tuple[Action, ...] = (note if on_its_pod else PatchCluster(history=history),)
            cluster = RayCluster(metadata=ObjectMeta(name="x", namespace="a"))
            with pytest.raises(Invalid):
                await hands.run((*back, DeleteRunning(pod=pod)), cluster=cluster, pod_group_demands=())
            assert not server.objects

    asyncio.run(scenario())
