"""Work that controllers make pods of, with these controllers themselves and the real KAI 0.12.0: it starts
gang by gang, whole or not at all.
"""

from collections.abc import Iterator

import pytest

from muster.model.gangpolicy import GangPolicy
from muster.model.names import KAI_QUEUE_LABEL
from tests import built
from tests.envtest import ControlPlane
from tests.integration.kueue_api.brought import OPERATORS, controller
from tests.integration.real_kai.bodies import (
    TRAINER,
    kubeflow_job,
    leader_worker_set,
    real_job_set,
    runtime,
    serving,
    train_job,
)
from tests.integration.real_kai.programs import JOBSET_CRD, Running
from tests.integration.real_kai.world import World, classes_of

_GROUP = "leaderworkerset.sigs.k8s.io/group-index"


@pytest.fixture(scope="module", autouse=True)
def controllers(plane: tuple[ControlPlane, Running]) -> Iterator[None]:
    server, _ = plane
    programs = built.programs(("lws", "jobset"), ("lws-config", JOBSET_CRD))
    server.define(programs.kinds("lws-config", below="crd/bases"))
    webhooks = programs.assets["lws-config"] / "webhook/manifests.yaml"
    with controller(server, "jobset", programs), controller(server, "lws", programs, webhooks=webhooks):
        yield
        for kind in ("mutating", "validating"):
            server.call(
                "DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/lws-{kind}"
            )


@pytest.fixture(autouse=True)
def cleaned(gangs: World) -> Iterator[None]:
    yield
    gangs.server.call("DELETE", f"{gangs.path_of('LeaderWorkerSet')}?propagationPolicy=Background")


def _offer(gangs: World, policy: GangPolicy, stock: int) -> None:
    gangs.offer(stock=stock, classes=classes_of(policy))


def test_a_job_set_with_a_node_too_few_starts_nothing_and_then_all_of_it(
    gangs: World, policy: GangPolicy
) -> None:
    _offer(gangs, policy, 3)
    gangs.make(real_job_set("a", "training", {"driver": (1, 1, 0), "workers": (2, 2, 1)}))
    gangs.eventually("its Jobs have their pods", lambda: len(gangs.pods("a")) == 5)
    gangs.eventually("its status says why it waits", lambda: "0 of 4 a10g nodes" in gangs.told("a"))
    gangs.stays(lambda: gangs.gated("a") == 5, "its driver, too, stays behind the gate")
    _offer(gangs, policy, 4)
    gangs.eventually("it starts when there is one more node", lambda: gangs.bound("a") == 5)


def test_each_group_of_a_leader_worker_set_starts_whole_and_one_without_nodes_not_at_all(
    gangs: World, policy: GangPolicy
) -> None:
    _offer(gangs, policy, 3)
    gangs.make(leader_worker_set("a", "training", groups=2, size=3))
    gangs.eventually("both groups have their pods", lambda: len(gangs.pods("a")) == 6)
    gangs.eventually("one group runs", lambda: _bound(gangs) in ({"0": 3}, {"1": 3}))
    gangs.stays(lambda: gangs.gated("a") == 3, "the other stays behind the gate")
    gangs.eventually(
        "KAI groups three pods at a time, when what another test left is collected",
        lambda: {each["spec"]["minMember"] for each in gangs.pod_groups()} == {3},
    )
    _offer(gangs, policy, 4)
    gangs.eventually("it starts when there is one more node", lambda: _bound(gangs) == {"0": 3, "1": 3})
    gangs.eventually("the status of the queue counts them", lambda: gangs.held("training") == "4")


def test_a_stateful_set_is_one_gang(gangs: World, policy: GangPolicy) -> None:
    _offer(gangs, policy, 2)
    gangs.make(serving("StatefulSet", "a", "training", pods=3))
    gangs.eventually("its status says why it waits", lambda: "0 of 3 a10g nodes" in gangs.told("a"))
    gangs.stays(lambda: gangs.gated("a") == 3, "it stays behind the gate")
    _offer(gangs, policy, 3)
    gangs.eventually("it starts when there is one more node", lambda: gangs.bound("a") == 3)


def test_each_pod_of_a_deployment_starts_by_itself(gangs: World, policy: GangPolicy) -> None:
    _offer(gangs, policy, 2)
    gangs.make(serving("Deployment", "a", "training", pods=3))
    gangs.eventually("two run", lambda: gangs.bound("a") == 2)
    gangs.stays(lambda: gangs.gated("a") == 1, "the third stays behind the gate")
    _offer(gangs, policy, 3)
    gangs.eventually("it starts when there is one more node", lambda: gangs.bound("a") == 3)


@pytest.fixture
def trains(gangs: World) -> Iterator[World]:
    """With Trainer and a runtime `torch`."""
    programs = built.programs(("trainer",), ("trainer-config",))
    gangs.server.define(programs.kinds("trainer-config", below="crds"))
    made = f"/apis/{TRAINER}/clustertrainingruntimes/torch"
    gangs.server.apply(runtime("torch", "training"), made)
    with controller(gangs.server, "trainer", programs):
        yield gangs
        gangs.server.call("DELETE", f"/apis/{TRAINER}/namespaces/{gangs.namespace}/trainjobs")
        gangs.server.call("DELETE", made)


def test_a_train_job_hands_its_queue_down_and_starts_whole(trains: World, policy: GangPolicy) -> None:
    _offer(trains, policy, 2)
    path = f"/apis/{TRAINER}/namespaces/{trains.namespace}/trainjobs"
    trains.server.call("POST", path, train_job("a", "training", nodes=3, of="torch"))
    trains.eventually("its status says why it waits", lambda: "0 of 3 a10g nodes" in trains.told("a"))
    (made,) = trains.items(trains.path_of("JobSet"))
    assert made["metadata"]["labels"][KAI_QUEUE_LABEL] == "training"
    trains.stays(lambda: trains.gated("a") == 3, "it stays behind the gate")
    _offer(trains, policy, 3)
    trains.eventually("it starts when there is one more node", lambda: trains.bound("a") == 3)


@pytest.mark.parametrize("kind", OPERATORS)
def test_a_job_of_kubeflows_operators_starts_whole(gangs: World, policy: GangPolicy, kind: str) -> None:
    operator = OPERATORS[kind]
    programs = built.programs((operator.name,), (f"{operator.name}-config",))
    gangs.server.define(operator.kinds(programs))
    _offer(gangs, policy, 2)
    with operator.running(gangs.server, programs):
        gangs.make(kubeflow_job(kind, "a", "training", workers=3))
        gangs.eventually("its status says why it waits", lambda: "0 of 3 a10g nodes" in gangs.told("a"))
        gangs.stays(lambda: gangs.gated("a") == 4, "it stays behind the gate")
        _offer(gangs, policy, 3)
        gangs.eventually("it starts when there is one more node", lambda: gangs.bound("a") == 4)
        gangs.server.call("DELETE", f"{gangs.path_of(kind)}/a?propagationPolicy=Background")


def _bound(gangs: World) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod in gangs.pods("a"):
        if "nodeName" in pod["spec"]:
            group = pod["metadata"]["labels"][_GROUP]
            found[group] = found.get(group, 0) + 1
    return found
