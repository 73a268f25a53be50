"""What is known about a Ray cluster, read from caches."""

import dataclasses
from fractions import Fraction

from muster.controller.gangs.objects import NODE, PLACEHOLDER, POD_TEMPLATE, PROVISIONING_REQUEST
from muster.controller.kai.actions import PatchCluster, Ungate
from muster.controller.kai.decide import decide
from muster.controller.kai.indexes import OF_NODES, OF_PLACEHOLDERS, OF_PODS, OF_REQUESTS, OF_TEMPLATES
from muster.controller.kai.labels import CLUSTER_NAME
from muster.controller.kai.objects import GATED_POD, PRIORITY_CLASS, QUEUE
from muster.controller.kai.queue_capacity import QueueDemand
from muster.controller.kai.snapshot import ClusterSnapshot
from muster.controller.kai.view import View
from muster.model.gangpolicy import GangPolicy, OverQuota
from muster.model.names import POOL_LABEL
from tests.unit.gangs.cached import cached
from tests.unit.kai.kai_world import PRIORITIES, Group, World, other_work, queue, ray_clusters, replace


def view_of(here: World) -> View:
    """The world as the caches hold it."""
    named = [
        replace(item, metadata=replace(item.metadata, annotations={CLUSTER_NAME: "a"}))
        for item in here.requests.values()
    ]
    return View(
        clusters=ray_clusters(here),
        work=other_work(here),
        pods=cached(GATED_POD, here.pods.values(), **OF_PODS),
        requests=cached(PROVISIONING_REQUEST, named, **OF_REQUESTS),
        templates=cached(POD_TEMPLATE, [], **OF_TEMPLATES),
        placeholders=cached(PLACEHOLDER, [], **OF_PLACEHOLDERS),
        nodes=cached(NODE, here.nodes.values(), **OF_NODES),
        queues=cached(QUEUE, here.queues.values()),
        priorities=cached(PRIORITY_CLASS, PRIORITIES.values()),
        policy=lambda: here.policy,
    )


def test_a_group_that_cannot_be_read_hides_no_nodes_from_another_that_grows() -> None:
    here = World(stock={"l4": 8})
    here.queues = {"team-a": queue("team-a", quota=8)}
    groups = {name: Group("l4", 1, minimum=1) for name in ("good", "bad")}
    here.submit("a", {"headgroup": Group("cpu"), **groups})
    here.ticks(6)
    assert here.running("a") == 3
    for name in groups:
        here.resize("a", name, 2)
    here.kuberay()
    (odd,) = (name for name, pod in here.pods.items() if "bad" in name and not pod.spec.node_name)
    pod = here.pods[odd]
    here.pods[odd] = replace(pod, spec=replace(pod.spec, node_selector={POOL_LABEL: "gone"}))
    here.settle()
    for name, request in list(here.requests.items()):
        if not request.status.holds("Provisioned"):
            here.provision(name)
    snapshot = view_of(here).snapshot(here.clusters["a"], now=here.now)
    ungated = [action.pod.metadata.name for action in decide(snapshot).actions if isinstance(action, Ungate)]
    assert len(ungated) == 1
    assert "good" in ungated[0]


def test_a_node_is_gone_once_it_was_seen_to_go() -> None:
    """The cache of pods may know of a node before that of nodes does: nothing is wrong with it."""
    here = World(stock={"l4": 1})
    here.queues = {"team-a": queue("team-a", quota=1)}
    here.submit("a", {"headgroup": Group("l4")})
    for _ in range(6):
        here.tick()
    (pod,), known = here.of("a"), dict(here.nodes)
    del here.nodes[pod.spec.node_name]
    view, cluster = view_of(here), here.clusters["a"]
    assert not decide(view.snapshot(cluster, now=here.now)).actions
    view.nodes.store.put(known[pod.spec.node_name])
    assert not decide(view.snapshot(cluster, now=here.now)).actions
    view.nodes.store.remove(known[pod.spec.node_name])
    (noted,) = decide(view.snapshot(cluster, now=here.now)).actions
    assert isinstance(noted, PatchCluster)
    assert "is gone" in noted.history.last_failure
    view.pods.store.remove(pod)
    view.pods.store.put(replace(pod, metadata=replace(pod.metadata, uid="another")))
    assert not decide(view.snapshot(cluster, now=here.now)).actions, "it has the name of an earlier one"


def test_what_running_pods_hold_follows_the_policy() -> None:
    """The share of a GPU that a pod's memory is can be told only where the policy says how large one is."""
    here = World(stock={"l4": 8})
    here.queues = {"team-a": queue("team-a", quota=2)}
    here.submit("runs", {"headgroup": Group("l4", memory="8192")})
    here.ticks(6)
    assert here.running("runs") == 1
    here.submit("waits", {"headgroup": Group("l4", memory="8192")})
    here.kuberay()
    here.queues["team-a"] = queue("team-a", quota=1.5)
    view, cluster = view_of(here), here.clusters["waits"]
    known, here.policy = here.policy, _without_sizes(here.policy)
    assert not _has_room(view.snapshot(cluster, now=here.now), gpus=1)
    here.policy = known
    assert _has_room(view.snapshot(cluster, now=here.now), gpus=1)


def _without_sizes(policy: GangPolicy) -> GangPolicy:
    flavors = tuple(dataclasses.replace(flavor, gpu_memory=0) for flavor in policy.flavors)
    return dataclasses.replace(policy, flavors=flavors)


def _has_room(snapshot: ClusterSnapshot, *, gpus: int) -> bool:
    demand = QueueDemand(queue="team-a", amounts={"gpu": Fraction(gpus)}, is_preemptible=True)
    return snapshot.ledger.shortfall([demand], over_quota=OverQuota.DENY) is None
