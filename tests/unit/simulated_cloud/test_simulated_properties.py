"""What holds in every history of requests, deletions, pods, faults, crashes and changes of stock."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from muster.local.simulated_cloud import names
from muster.local.simulated_cloud.faults import Fault, FaultKind
from muster.local.simulated_cloud.objects import VmState
from tests.length import examples
from tests.unit.simulated_cloud.world import ONE_GPU, World, consumer, offering, pool, request

_POOLS = ("l4", "h100")
# Everything but `partial`, which is there to break the promise that is tested.
_WHOLE = [kind for kind in FaultKind if kind is not FaultKind.PARTIAL]


class Cloud(RuleBasedStateMachine):
    """Two pools of two machines each, real and kwok."""

    @initialize(stock=st.integers(0, 3))
    def build(self, stock: int) -> None:
        self.world = World(
            offering(
                pool(stock=stock, max_nodes=3),
                pool("h100", stock=2, max_nodes=3, atomic=False, on_demand=True, jitter=5.0),
            )
        )
        self.most = {"l4": stock, "h100": 2}
        self.serial = 0

    @rule(
        where=st.sampled_from(_POOLS),
        count=st.integers(1, 4),
        kind=st.sampled_from(names.CLASSES),
        sets=st.integers(1, 2),
    )
    def ask(self, where: str, count: int, kind: str, sets: int) -> None:
        self.serial += 1
        shape = replace(ONE_GPU, selector={names.POOL_LABEL: where})
        self.world.add(
            request(f"r{self.serial}", count=count, provisioning_class=kind, shapes=(shape,) * sets)
        )

    @precondition(lambda self: self.world.requests)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        del self.world.requests[data.draw(st.sampled_from(sorted(self.world.requests)))]

    @rule(seconds=st.sampled_from([1, 5, 30, 120, 700]))
    def wait(self, seconds: int) -> None:
        self.world.run(seconds, tick=max(1.0, seconds / 20))

    @rule(upto=st.integers(0, 3))
    def crash_in_the_middle(self, upto: int) -> None:
        self.world.now += 1
        self.world.step(upto=upto)

    @rule()
    def boot(self) -> None:
        self.world.boot()

    @precondition(lambda self: self.world.nodes and self.world.requests)
    @rule(data=st.data())
    def consume(self, data: st.DataObject) -> None:
        self.serial += 1
        one = self.world.requests[data.draw(st.sampled_from(sorted(self.world.requests)))]
        node = data.draw(st.sampled_from(sorted(self.world.nodes)))
        self.world.pods[f"p{self.serial}"] = consumer(one, node, f"p{self.serial}")

    @rule()
    def wait_for_a_node(self) -> None:
        self.serial += 1
        pod = consumer(request("nobody"), "", f"p{self.serial}")
        self.world.pods[pod.name] = replace(pod, consumes="", unschedulable=self.world.now)

    @rule()
    def finish_pods(self) -> None:
        self.world.pods.clear()

    @rule(
        where=st.sampled_from((*_POOLS, "*")),
        kind=st.sampled_from(_WHOLE),
        count=st.none() | st.integers(1, 2),
        wait=st.booleans(),
    )
    def fault(self, where: str, kind: FaultKind, count: int | None, wait: bool) -> None:
        self.serial += 1
        new = Fault(f"f{self.serial}", where, kind, self.world.now, self.world.now + 300, count, wait)
        self.world.faults = (*self.world.faults[-2:], new)

    @rule(where=st.sampled_from(_POOLS), stock=st.integers(0, 3))
    def restock(self, where: str, stock: int) -> None:
        self.world.capacity[where] = stock
        self.most[where] = max(self.most[where], stock)

    @rule(broken=st.booleans())
    def machines(self, broken: bool) -> None:
        self.world.broken_machines = broken

    @invariant()
    def never_more_nodes_than_stock(self) -> None:
        for where in _POOLS:
            assert sum(node.pool == where for node in self.world.nodes.values()) <= self.most[where]

    @invariant()
    def a_queued_request_is_provisioned_whole(self) -> None:
        for one in self.world.requests.values():
            if one.provisioning_class != names.QUEUED:
                continue
            came = [node for node in self.world.bought if node.owner_uid == one.uid]
            if one.is_true("Provisioned"):
                # Hit one of its machines, and it failed; whoever is Provisioned got one for each pod.
                assert {node.ordinal for node in came} == set(range(sum(each.count for each in one.pod_sets)))
            elif not one.ended and not came:
                assert not self.world.nodes_of(one.name)

    @invariant()
    def nothing_comes_for_nobody(self) -> None:
        for node in self.world.nodes.values():
            if node.owner_uid in self.world.requests:
                assert self.world.requests[node.owner_uid].asked > node.ordinal

    @invariant()
    def no_lease_without_a_verdict(self) -> None:
        for one in self.world.requests.values():
            assert not (one.is_true("Provisioned") and one.is_true("Failed"))
            if one.is_true("BookingExpired") or one.is_true("CapacityRevoked"):
                assert one.is_true("Provisioned")

    def teardown(self) -> None:
        """Once nobody asks for anything, nothing is left, and no decision is wanted any more."""
        if not hasattr(self, "world"):
            return
        self.world.requests.clear()
        self.world.pods.clear()
        self.world.faults = ()
        self.world.broken_machines = False
        self.world.run(130, tick=2)
        assert all(node.vm is VmState.RUNNING and not node.ready for node in self.world.nodes.values())
        self.world.boot()
        self.world.run(60, tick=2)
        assert not self.world.nodes
        assert not self.world.decide()


Cloud.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)
TestCloud = Cloud.TestCase
