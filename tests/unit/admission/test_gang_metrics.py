"""What the metrics say of gangs is what happens to them, counted once."""

import asyncio
from datetime import timedelta

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from muster.controller.gangs.autoscaler_words import OUT_OF_STOCK
from muster.controller.gangs.gang_state import GangObservation, GangObserver, RequestObserver
from muster.controller.gangs.identity import placeholder_name, template_name
from muster.controller.gangs.indexes import request_of
from muster.controller.gangs.metrics import OTHER, GangMetrics, GangState, reason_of
from muster.controller.gangs.objects import (
    Condition,
    Placeholder,
    PodTemplate,
    ProvisioningRequest,
    ProvisioningRequestStatus,
    Taint,
)
from muster.controller.gangs.placeholder_sets import ASKED, PlaceholderSet, asked
from muster.controller.gangs.reasons import RULES, Rule
from muster.controller.gangs.templates import POOL
from muster.controller.kube.resource import Key, ObjectMeta
from muster.controller.kueue.gang_state import observe
from muster.controller.kueue.idle_quota import IdleQuotaMonitor
from muster.controller.kueue.objects import ReclaimablePod
from muster.model.names import GKE_QUEUED_CLASS, HELD_TAINT_KEY, PLACEHOLDER_NAMESPACE
from tests.unit.admission.gang_world import CHECK, POLICY, World
from tests.unit.admission.views import view_of
from tests.unit.gangs.paper import START, node

replace = msgspec.structs.replace
TWO = {"head": ("cpu", 1), "a": ("l4", 1), "b": ("h100", 1)}


class Watched:
    """A world in which somebody looks on."""

    def __init__(self, world: World) -> None:
        self.world, self.registry = world, CollectorRegistry()
        self.leads = True
        metrics = GangMetrics(self.registry)
        self.gangs = GangObserver(metrics, self._sight, clock=lambda: world.now)
        self.requests = RequestObserver(metrics=metrics, counts=lambda: self.leads, flavor=POLICY.flavor)
        self._told: dict[str, ProvisioningRequest] = {}
        self._idle_quota = IdleQuotaMonitor(
            metrics,
            find=lambda key: world.workloads.get(key.name),
            has_pod=lambda request: any(request in request_of(pod) for pod in world.pods.values()),
            clock=lambda: world.now,
        )

    def unused(self) -> float:
        asyncio.run(self._idle_quota.check_all())
        return self.value("muster_gang_unused_quota_timestamp_seconds")

    def _sight(self, key: Key) -> GangObservation | None:
        found = self.world.workloads.get(key.name)
        return (
            observe(found, [entry.name for entry in found.status.admission_checks] or [CHECK])
            if found
            else None
        )

    def run(self, minutes: int) -> None:
        for _ in range(minutes):
            self.world.tick()
            self.look()

    def look(self) -> None:
        for name in self.world.workloads:
            self.gangs.observe(Key("team-a", name))
        present = {name: _pooled(request) for name, request in self.world.requests.items()}
        for name in self._told.keys() | present.keys():
            before, after = self._told.get(name), present.get(name)
            if before != after:
                self.requests.changed(before, after)
        self._told = present

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    def states(self) -> dict[str, float]:
        found = {state: self.value("muster_gangs", state=state) for state in GangState}
        return {str(state): count for state, count in found.items() if count}

    def outcomes(self, pool: str) -> dict[str, float]:
        return {
            sample.labels["outcome"]: sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "muster_provisioning_requests_total" and sample.labels["pool"] == pool
        }


def _pooled(request: ProvisioningRequest) -> ProvisioningRequest:
    """As the executor writes it."""
    meta = request.metadata
    return replace(request, metadata=replace(meta, annotations={POOL: meta.annotations["pool"]}))


def test_a_gang_is_counted_in_one_state_and_its_time_in_each_is_kept() -> None:
    watched = Watched(World(delay={"l4": timedelta(minutes=3)}))
    watched.world.submit("one", TWO)
    watched.look()
    assert watched.states() == {"queued": 1}
    watched.run(3)
    assert watched.states() == {"provisioning": 1}
    oldest = watched.value("muster_gang_oldest_timestamp_seconds", state="provisioning")
    since = watched.world.workloads["one"].status.since("QuotaReserved")
    assert since is not None
    assert oldest == since.timestamp()
    watched.run(8)
    assert watched.states() == {"running": 1}
    spent = watched.value("muster_gang_phase_seconds_sum", phase="provisioning")
    started = watched.world.started["one"]
    assert spent == pytest.approx((started - since).total_seconds(), abs=60)
    watched.run(30)
    assert watched.states() == {}
    assert watched.value("muster_gang_oldest_timestamp_seconds", state="running") == 0


def test_a_running_gang_without_any_pod_is_told_since_when_until_one_is_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    watched = Watched(World(runtime=timedelta(days=1)))
    world = watched.world
    world.submit("one", TWO)
    watched.run(12)
    assert watched.states() == {"running": 1}
    assert watched.unused() == 0
    kept, began = dict(world.pods), world.now
    world.pods.clear()
    assert watched.unused() == began.timestamp()
    assert "quota without a pod" not in capsys.readouterr().out
    for _ in range(3):
        world.now += timedelta(minutes=20)
        assert watched.unused() == began.timestamp()
    assert capsys.readouterr().out.count("quota without a pod") == 1
    world.pods.update(kept)
    assert watched.unused() == 0


def test_pod_sets_that_want_no_pods_any_more_hold_no_quota_for_any() -> None:
    watched = Watched(World(runtime=timedelta(days=1)))
    world = watched.world
    world.submit("one", TWO)
    watched.run(12)
    world.pods.clear()
    held = world.workloads["one"]
    done = tuple(ReclaimablePod(name=each.name, count=each.count) for each in held.spec.pod_sets)
    world._status("one", reclaimable_pods=done)
    assert watched.unused() == 0


def test_requests_are_counted_by_class_pool_and_outcome() -> None:
    watched = Watched(World())
    watched.world.submit("one", TWO)
    watched.run(12)
    assert watched.states() == {"running": 1}
    whole = {"asked": 1, "accepted": 1, "provisioned": 1}
    assert (watched.outcomes("l4"), watched.outcomes("h100")) == (whole, whole)
    watched.run(30)
    assert not watched.world.requests
    assert (watched.outcomes("l4"), watched.outcomes("h100")) == (whole, whole)
    times = {"class": GKE_QUEUED_CLASS, "phase": "provision"}
    assert watched.value("muster_provisioning_request_seconds_count", **times) == 2


def test_a_failed_attempt_is_one_retry_with_its_reason_and_its_siblings_are_withdrawn() -> None:
    watched = Watched(World(stock={"l4": 1, "h100": 0}))
    watched.world.submit("one", TWO)
    watched.run(3)
    (name,) = [
        key for key, held in watched.world.requests.items() if held.metadata.annotations["pool"] == "h100"
    ]
    watched.world.answer(name, "Failed", "ResourcePoolExhausted", "There are not enough resources")
    watched.look()
    failed = _pooled(watched.world.requests[name])
    written_again = replace(failed, metadata=replace(failed.metadata, resource_version="2"))
    watched.requests.changed(failed, written_again)
    watched.run(1)
    assert watched.states() == {"backing_off": 1}
    assert watched.value("muster_gang_retries_total", reason="out_of_stock") == 1
    assert watched.outcomes("h100")["out_of_stock"] == 1
    assert watched.outcomes("l4").get("provisioned", 0) + watched.outcomes("l4").get("withdrawn", 0) == 1


def test_a_set_of_placeholders_is_counted_as_a_request_is() -> None:
    watched = Watched(World())
    body = {
        "metadata": {
            "name": template_name("muster-a", 0),
            "namespace": "team-a",
            "annotations": {ASKED: asked(1, 1), POOL: "l4"},
            "creationTimestamp": START,
        },
        "template": {},
    }
    template = msgspec.convert(body, PodTemplate)
    held = node("l4-1", "l4", taints=(Taint(key=HELD_TAINT_KEY, value="muster-a", effect="NoSchedule"),))
    view = view_of(POLICY, templates=[template], nodes=[held])
    view.requests.store.listen(watched.requests.changed)
    placed = {
        "metadata": {"name": placeholder_name("muster-a", 0, 0), "namespace": PLACEHOLDER_NAMESPACE},
        "spec": {"nodeName": "l4-1", "tolerations": [{"operator": "Exists"}]},
    }
    for _ in range(2):
        assert list(view.placeholder_sets([template], ()))
        assert watched.outcomes("l4") == {"asked": 1, "accepted": 1}
    assert list(view.placeholder_sets([template], [msgspec.convert(placed, Placeholder)]))
    assert watched.outcomes("l4") == {"asked": 1, "accepted": 1, "provisioned": 1}
    assert list(view.placeholder_sets([template], ()))
    view.templates.store.remove(template)
    assert watched.outcomes("l4")["withdrawn"] == 1


@pytest.mark.parametrize(
    ("waits_for", "outcome"), [(OUT_OF_STOCK, "out_of_stock"), ("nodes are booting", "withdrawn")]
)
def test_placeholders_that_are_given_back_are_counted_by_what_they_waited_for(
    waits_for: str, outcome: str
) -> None:
    watched = Watched(World())
    waiting = Condition(type="Provisioned", status="False", message=waits_for)
    metadata = ObjectMeta(name="r", annotations={POOL: "l4"})
    asked = PlaceholderSet(metadata=metadata, status=ProvisioningRequestStatus(conditions=(waiting,)))
    watched.requests.changed(asked, None)
    assert watched.outcomes("l4") == {outcome: 1}


def test_a_refused_gang_is_counted_as_one_for_a_person() -> None:
    watched = Watched(World())
    watched.world.submit("huge", {"a": ("l4", 9)})
    watched.look()
    watched.run(3)
    assert watched.states() == {"refused": 1}
    assert watched.value("muster_gang_refusals_total") == 1


def test_what_was_there_before_us_and_what_another_leader_sees_is_not_counted() -> None:
    watched = Watched(World())
    watched.leads = False
    watched.world.submit("one", TWO)
    watched.run(12)
    assert watched.outcomes("l4") == {}


def test_a_pool_that_no_policy_knows_makes_no_label_of_its_own() -> None:
    watched = Watched(World())
    for number in range(50):
        made_up = ProvisioningRequest()
        metadata = replace(made_up.metadata, name=f"r{number}", annotations={POOL: f"pool-{number}"})
        watched.requests.changed(None, replace(made_up, metadata=metadata))
    assert watched.outcomes(OTHER) == {"asked": 50}


def test_another_gang_of_the_same_name_is_no_transition() -> None:
    registry, seen = CollectorRegistry(), [GangObservation("one", GangState.RUNNING, START)]
    observer = GangObserver(GangMetrics(registry), lambda _: seen[0], clock=lambda: START)
    observer.observe(Key("a", "x"))
    seen[0] = GangObservation("two", GangState.QUEUED, START)
    observer.observe(Key("a", "x"))
    assert registry.get_sample_value("muster_gangs", {"state": "queued"}) == 1
    assert registry.get_sample_value("muster_gangs", {"state": "running"}) == 0
    assert registry.get_sample_value("muster_gang_phase_seconds_count", {"phase": "running"}) is None


async def test_an_onlooker_that_fails_stops_no_reconcile() -> None:
    def broken(_: Key) -> GangObservation | None:
        raise ValueError

    reconciled: list[Key] = []

    async def reconcile(key: Key) -> None:
        reconciled.append(key)

    observer = GangObserver(GangMetrics(CollectorRegistry()), broken, clock=lambda: START)
    await observer.around(reconcile, writes=lambda: len(reconciled))(Key("a", "x"))
    assert reconciled == [Key("a", "x")]


@pytest.mark.parametrize("written", [0, 1])
async def test_what_a_reconcile_wrote_is_observed_at_its_end(written: int) -> None:
    """Its own writes do not bring it back; one that wrote nothing is observed once."""
    looked: list[Key] = []
    count = [0]

    def observe(key: Key) -> GangObservation | None:
        looked.append(key)
        return None

    async def reconcile(_: Key) -> None:
        count[0] += written

    observer = GangObserver(GangMetrics(CollectorRegistry()), observe, clock=lambda: START)
    await observer.around(reconcile, writes=lambda: count[0])(Key("a", "x"))
    assert len(looked) == 1 + written


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.summary)
def test_every_reason_of_the_table_is_a_label(rule: Rule) -> None:
    label = rule.summary.replace(" ", "_")
    assert reason_of(f"{rule.summary}: SomeReason: words of a cloud") == label


def test_a_clock_that_ran_out_is_named_and_anything_else_is_other() -> None:
    assert reason_of("provisionTimeout of 30m has passed") == "provisionTimeout_passed"
    assert reason_of("words that a user wrote " * 9) == OTHER
