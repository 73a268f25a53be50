"""The controller's view over caches that a test fills, with the indexes that the controller has."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, cast

from muster.controller.gangs.autoscaler_words import AutoscalerWords
from muster.controller.gangs.broken_nodes import NodeSigns
from muster.controller.gangs.indexes import BY_OWNER
from muster.controller.gangs.objects import (
    NODE,
    PLACEHOLDER,
    POD,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    Belonging,
)
from muster.controller.kube.resource import Key
from muster.controller.kueue.checks import Checks
from muster.controller.kueue.indexes import (
    OF_BELONGINGS,
    OF_NODES,
    OF_PLACEHOLDERS,
    OF_PODS,
    OF_REQUESTS,
    OF_TEMPLATES,
    OF_WORKLOADS,
    Indexes,
)
from muster.controller.kueue.objects import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from muster.controller.kueue.view import View
from muster.controller.runtime.clock import utc_now
from muster.model.gangpolicy import GangPolicy
from muster.model.names import WORKLOAD_UID_LABEL
from tests.unit.admission.gang_world import CHECK, FLAVORS, World
from tests.unit.gangs.cached import cached


def named_by_label(item: Belonging) -> list[Key]:
    """The Workload of an item in a world that calls the uid of Workload `a` uid-a."""
    return [Key("team-a", item.metadata.labels[WORKLOAD_UID_LABEL].removeprefix("uid-"))]


class OneCheck:
    """One check, ours, that follows one policy."""

    def __init__(self, policy: GangPolicy) -> None:
        self._policy = policy

    def listen(self, changed: Callable[[], None]) -> None:
        """It never changes."""

    def is_ours(self, name: str) -> bool:
        return name == CHECK

    def is_being_removed(self) -> bool:
        return False

    def are_gone(self) -> bool:
        return False

    def policy(self, _name: str) -> GangPolicy:
        return self._policy


def view_of(
    policy: GangPolicy,
    *,
    flavors: Iterable[Any] = FLAVORS.values(),
    owned: Indexes = OF_BELONGINGS,
    words: AutoscalerWords | None = None,
    signs: NodeSigns | None = None,
    clock: Callable[[], datetime] = utc_now,
    **objects: Iterable[Any],
) -> View:
    """`objects`: what is in the caches, by the names that the view has for them. `owned`: how what was made
    for a gang is found, where the test makes it in another way.
    """
    held = {name: objects.get(name, ()) for name in _CACHED}
    return View(
        workloads=cached(WORKLOAD, held["workloads"], **OF_WORKLOADS),
        requests=cached(PROVISIONING_REQUEST, held["requests"], **{**OF_REQUESTS, **owned}),
        templates=cached(POD_TEMPLATE, held["templates"], **{**OF_TEMPLATES, **owned}),
        placeholders=cached(PLACEHOLDER, held["placeholders"], **{**OF_PLACEHOLDERS, **owned}),
        nodes=cached(NODE, held["nodes"], **OF_NODES),
        pods=cached(POD, held["pods"], **OF_PODS),
        flavors=cached(RESOURCE_FLAVOR, flavors),
        queues=cached(CLUSTER_QUEUE, ()),
        words=words,
        signs=signs or NodeSigns(),
        checks=cast(Checks, OneCheck(policy)),
        clock=clock,
    )


def view_over(world: World, **more: Any) -> View:
    """Of all that a world on paper has. `more`: what is otherwise there, as `view_of` takes it."""
    objects = {name: getattr(world, name).values() for name in _CACHED}
    return view_of(world.policy, **{"owned": {BY_OWNER: named_by_label}, **objects, **more})


_CACHED = ("workloads", "requests", "templates", "placeholders", "nodes", "pods")
