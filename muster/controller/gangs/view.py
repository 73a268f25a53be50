"""The caches of what is written for gangs, and of nodes, as both schedulers read them.

Each scheduler's view adds its own kinds, and builds snapshots. Reads caches, calls nothing, decides nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from muster.controller.gangs.autoscaler_words import AutoscalerWords, Said
from muster.controller.gangs.broken_nodes import (
    NodeSigns,
    format_closed,
    node_that_rejected,
    nodes_with_tainted_devices,
)
from muster.controller.gangs.identity import request_of_template
from muster.controller.gangs.indexes import BY_CLOSED, BY_NODE, BY_OWNER
from muster.controller.gangs.objects import (
    Belonging,
    Node,
    Placeholder,
    PodTemplate,
    ProvisioningRequest,
)
from muster.controller.gangs.owner import Owners
from muster.controller.gangs.placeholder_sets import PlaceholderSet, has_changed, sets_of
from muster.controller.gangs.split import Gang
from muster.controller.gangs.templates import POOL
from muster.controller.gangs.usage import NodeUsage
from muster.controller.kube.resource import Key, Object, T
from muster.controller.runtime.informer import Cached, Informer
from muster.model.names import PLACEHOLDER_NAMESPACE
from muster.model.pods import Amounts

S = TypeVar("S", bound=Object)


@dataclass(slots=True, kw_only=True, eq=False)
class GangView(ABC, Generic[T]):
    """`T`: the kind of object that a gang belongs to."""

    requests: Informer[ProvisioningRequest]
    templates: Informer[PodTemplate]
    placeholders: Informer[Placeholder]
    nodes: Informer[Node]
    words: AutoscalerWords | None = None
    signs: NodeSigns = field(default_factory=NodeSigns)
    usage: NodeUsage[Any] = field(init=False)
    _told: dict[str, PlaceholderSet] = field(init=False, default_factory=dict)
    """By name: the placeholder sets that listeners to requests have been told of."""

    def __post_init__(self) -> None:
        self.templates.store.listen(self._template_changed)
        if self.signs.failed:
            self.signs.failed.store.listen(partial(self._sign_changed, node_that_rejected))
        if self.signs.slices:
            self.signs.slices.store.listen(partial(self._sign_changed, nodes_with_tainted_devices))

    @property
    @abstractmethod
    def owners(self) -> Owners:
        """How what is made for such an object names it."""

    @property
    @abstractmethod
    def gangs(self) -> Cached[T]:
        """The cache of those objects."""

    def made_for(self, key: Key) -> list[Belonging]:
        """All that was made for objects of this name."""
        caches: tuple[Informer[Any], ...] = (self.requests, self.templates, self.placeholders)
        return [item for cache in caches for item in cache.store.by_index(BY_OWNER, key)]

    def orphans(self, key: Key) -> list[Belonging]:
        """What was made for an earlier object of this name, where garbage collection did not reach."""
        held = self.gangs.get(key)
        uid = held.metadata.uid if held else ""
        foreign = (item for item in self.made_for(key) if self.owners.uid_of(item) != uid)
        return [item for item in foreign if not item.metadata.deletion_timestamp]

    def owner_of(self, item: Belonging) -> T | None:
        """The object that it was made for; None where that is gone."""
        found = (self.gangs.get(key) for key in self.owners.keys_of(item))
        uid = self.owners.uid_of(item)
        return next((each for each in found if each and each.metadata.uid == uid), None)

    def placeholder_sets(
        self, templates: Iterable[PodTemplate], placeholders: Iterable[Placeholder]
    ) -> Iterator[PlaceholderSet]:
        for found in sets_of(
            templates,
            placeholders,
            node=self.judged_node,
            why=self.words.why if self.words else lambda _: "",
            used=self._used_on,
        ):
            self._tell(found)
            yield found

    def _sign_changed(self, nodes_of: Callable[[S], list[str]], before: S | None, after: S | None) -> None:
        """Tell the listeners of a node about signs that another object has: it may be broken. The node is the
        same before and after.
        """
        for name in {name for held in (before, after) if held for name in nodes_of(held)}:
            if node := self.nodes.get(Key("", name)):
                self.nodes.store.tell(node, node)

    def judged_node(self, name: str) -> Node | None:
        node = self.nodes.get(Key("", name))
        return self.signs.judged(node) if node else None

    def judged(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """What no gang may start on is not Ready among them."""
        return tuple(map(self.signs.judged, nodes))

    def set_aside(self, gang: Gang) -> str:
        """Which nodes of its pools are closed, and why; empty where none is."""
        pools = sorted({demand.flavor.name for spec in gang.request_specs for demand in spec.demands})
        return format_closed(node for pool in pools for node in self.nodes.store.by_index(BY_CLOSED, pool))

    def _tell(self, found: PlaceholderSet) -> None:
        """Metrics count sets as they count requests. What is told names no owner: it reconciles nobody."""
        name, before = found.metadata.name, self._told.get(found.metadata.name)
        if before is None or before.status != found.status:
            pool = {POOL: found.metadata.annotations.get(POOL, "")}
            self._told[name] = PlaceholderSet(
                metadata=replace(found.metadata, labels={}, annotations=pool), status=found.status
            )
            self.requests.store.tell(before, self._told[name])

    def _template_changed(self, before: PodTemplate | None, after: PodTemplate | None) -> None:
        if before is not None and after is None:
            gone = self._told.pop(request_of_template(before.metadata.name), None)
            if gone is not None:
                self.requests.store.tell(gone, None)

    def _used_on(self, node: str) -> Amounts:
        """What all pods on it take; nothing where one of them cannot be read."""
        try:
            return self.usage.of((node,)).get(node, {})
        except ValueError:
            return {}

    def placed_on(self, before: Node | None, after: Node | None) -> Iterable[Key]:
        """The gangs that have a placeholder on this node, when it is another node to them."""
        node = after or before
        seen = [self.signs.judged(each) if each else None for each in (before, after)]
        if node is None or not (before is after or has_changed(*seen)):
            return ()
        pods = self.placeholders.store.by_index(BY_NODE, node.metadata.name)
        return {key for pod in pods for key in self.owners.keys_of(pod)}

    def spoken_of(self, said: Said) -> Iterable[Key]:
        """The gangs whose placeholders an Event is about, or the NodeClaim that was made for them."""
        names = self.words.placeholders_of(said) if self.words else ()
        pods = (self.placeholders.get(Key(PLACEHOLDER_NAMESPACE, name)) for name in names)
        return {key for pod in pods if pod for key in self.owners.keys_of(pod)}
