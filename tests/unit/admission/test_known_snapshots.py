"""What is kept of a gang is what the caches show of it, whatever changes."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from muster.controller.gangs.autoscaler_words import (
    BY_SUBJECT,
    CLAIM_EVENTS,
    EVENTS,
    AutoscalerWords,
    Said,
    Subject,
    subject_of,
)
from muster.controller.gangs.objects import Placeholder
from muster.controller.kube.resource import Key, ObjectMeta
from muster.controller.kueue import identity
from muster.controller.kueue.known_snapshots import KnownSnapshots
from muster.controller.kueue.objects import (
    ClusterQueue,
    ClusterQueueSpec,
    FlavorName,
    ResourceGroup,
    Workload,
)
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.controller.runtime.informer import Informer
from muster.model.names import OWNER_NAMESPACE_ANNOTATION, PLACEHOLDER_NAMESPACE
from tests.unit.admission.fleet import SPACE, TWO_SHAPES, Fleet
from tests.unit.admission.gang_world import CHECK, POLICY, workload
from tests.unit.admission.views import view_of
from tests.unit.controller_runtime.virtual import on_virtual_time
from tests.unit.gangs.cached import cached
from tests.unit.gangs.paper import START

replace = msgspec.structs.replace


def _changed(cache: Informer[Any], item: Any, version: str, **changes: Any) -> None:
    meta = replace(item.metadata, resource_version=version)
    cache.store.put(replace(item, metadata=meta, **changes))


@pytest.mark.parametrize("stock", [10_000, 3])
@on_virtual_time
async def test_every_decision_is_made_from_what_the_caches_show(
    monkeypatch: pytest.MonkeyPatch, stock: int
) -> None:
    kept = KnownSnapshots.of
    asked = [0]

    def compared(self: KnownSnapshots, workload: Workload, check: str, now: datetime) -> WorkloadSnapshot:
        asked[0] += 1
        found = kept(self, workload, check, now)
        assert found == self._build(workload, check, now)
        return found

    monkeypatch.setattr(KnownSnapshots, "of", compared)
    fleet = Fleet(stock=stock)
    for number in range(8):
        fleet.submit(f"gang-{number}", TWO_SHAPES)
    await fleet.run(lambda: len(fleet.ready) == min(stock, 8))
    assert asked[0] > 8


@on_virtual_time
async def test_a_snapshot_is_built_again_when_a_queue_or_a_flavor_is_another_one() -> None:
    fleet = Fleet()
    fleet.submit("a", TWO_SHAPES)
    view, held = fleet.view, fleet.view.workloads.get(Key(SPACE, "a"))
    assert held is not None
    assert held.status.admission is not None
    first = view.known.of(held, CHECK, START)
    assert view.known.of(held, CHECK, START) is first
    flavor = next(iter(view.flavors.store))
    _changed(view.flavors, flavor, "2")
    assert view.known.of(held, CHECK, START) is first, "nothing but its version has changed"
    labels = {**flavor.spec.node_labels, "zone": "b"}
    _changed(view.flavors, flavor, "3", spec=replace(flavor.spec, node_labels=labels))
    second = view.known.of(held, CHECK, START)
    assert second.flavors[flavor.metadata.name].spec.node_labels == labels
    group = ResourceGroup(flavors=(FlavorName(name="l4"),))
    queue = ClusterQueue(
        metadata=ObjectMeta(name=held.status.admission.cluster_queue, uid="q", resource_version="4"),
        spec=ClusterQueueSpec(resource_groups=(group,)),
    )
    view.queues.store.put(queue)
    assert view.known.of(held, CHECK, START).queue_flavors == (("l4",),)


def _said(name: str, subject: Subject, message: str) -> Said:
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", resource_version="2")
    return Said(metadata=meta, involved_object=subject, reason="Nominated", message=message)


def test_an_event_concerns_the_gang_of_its_placeholder_alone() -> None:
    gangs = {name: workload(name, TWO_SHAPES) for name in ("a", "b")}
    pods = [
        Placeholder(
            metadata=ObjectMeta(
                name=f"muster-{name}-0",
                namespace=PLACEHOLDER_NAMESPACE,
                uid=f"pod-{name}",
                labels={identity.WORKLOAD_UID: held.metadata.uid},
                annotations={
                    identity.WORKLOADS.name_annotation: name,
                    OWNER_NAMESPACE_ANNOTATION: held.metadata.namespace,
                },
            )
        )
        for name, held in gangs.items()
    ]
    words = AutoscalerWords(
        cached(EVENTS, (), **{BY_SUBJECT: subject_of}), cached(CLAIM_EVENTS, (), **{BY_SUBJECT: subject_of})
    )
    view = view_of(POLICY, workloads=gangs.values(), placeholders=pods, words=words)

    def is_kept_after(cache: Informer[Said], said: Said) -> list[bool]:
        before = [view.known.of(held, CHECK, START) for held in gangs.values()]
        cache.store.put(said)
        return [
            view.known.of(held, CHECK, START) is one for held, one in zip(gangs.values(), before, strict=True)
        ]

    nominated = _said("1", Subject(kind="Pod", name="muster-a-0"), "should schedule on: nodeclaim/pool-x1")
    assert is_kept_after(words.pods, nominated) == [False, True]
    failed = _said("2", Subject(kind="NodeClaim", name="pool-x1"), "InsufficientCapacityError")
    assert is_kept_after(words.claims, failed) == [False, True]
    foreign = _said("3", Subject(kind="NodeClaim", name="pool-x"), "InsufficientCapacityError")
    assert is_kept_after(words.claims, foreign) == [True, True]
    assert [{*view.spoken_of(said)} for said in (nominated, failed, foreign)] == [
        {gangs["a"].key},
        {gangs["a"].key},
        set(),
    ]
