"""What is known of each Workload alone, computed once for the decision, the line and its competitors.

A snapshot is kept until something changes that it was made of. One that follows from other Workloads, a slice
of an elastic gang, is never kept.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from muster.controller.gangs.autoscaler_words import AutoscalerWords, Said
from muster.controller.gangs.indexes import BY_NODE
from muster.controller.gangs.objects import Belonging, Node, Placeholder
from muster.controller.kube.resource import Key, Object, ObjectMeta
from muster.controller.kueue import identity
from muster.controller.kueue.checks import Checks
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.slices import is_elastic
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.controller.runtime.informer import Informer
from muster.model.names import PLACEHOLDER_NAMESPACE

_NO_METADATA: Final = ObjectMeta()


class KnownSnapshots:
    """`build` makes one from the caches. `made` and `placeholders` are what is made for gangs, `others` what
    concerns all of them.
    """

    def __init__(
        self,
        build: Callable[[Workload, str, datetime], WorkloadSnapshot],
        *,
        workloads: Informer[Workload],
        made: Iterable[Informer[Any]],
        others: Iterable[Informer[Any]],
        placeholders: Informer[Placeholder],
        nodes: Informer[Node],
        words: AutoscalerWords | None,
        checks: Checks,
    ) -> None:
        self._build, self._placeholders, self._words = build, placeholders, words
        self._known: dict[str, dict[str, WorkloadSnapshot]] = {}
        """By uid and check."""
        workloads.store.listen(self._workload_changed)
        for cache in (*made, placeholders):
            cache.store.listen(self._belonging_changed)
        for cache in others:
            cache.store.listen(self._other_changed)
        for events in (words.pods, words.claims) if words else ():
            events.store.listen(self._word_changed)
        nodes.store.listen(self._node_changed)
        checks.listen(self._known.clear)

    def of(self, workload: Workload, check: str, now: datetime) -> WorkloadSnapshot:
        """Valid until the next change: it is the same object for all who ask."""
        uid = workload.metadata.uid
        known = self._known.get(uid, {}).get(check)
        if known is not None and known.workload is workload:
            known.move_to(now)
            return known
        made = self._build(workload, check, now)
        if not is_elastic(workload):
            self._known.setdefault(uid, {})[check] = made
        return made

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)

    def _workload_changed(self, before: Workload | None, after: Workload | None) -> None:
        if before is not None:
            self.forget(before.metadata.uid)

    def _belonging_changed(self, before: Belonging | None, after: Belonging | None) -> None:
        for item in (before, after):
            if item is not None:
                self.forget(identity.WORKLOADS.uid_of(item))

    def _other_changed(self, before: Object | None, after: Object | None) -> None:
        """Kueue writes the status of a queue with every gang."""
        if before is None or after is None or _content(before) != _content(after):
            self._known.clear()

    def _word_changed(self, before: Said | None, after: Said | None) -> None:
        """Karpenter writes one for each pod and each try."""
        listed = [said for said in (before, after) if said]
        names = {name for said in listed if self._words for name in self._words.placeholders_of(said)}
        for name in names:
            self._belonging_changed(None, self._placeholders.get(Key(PLACEHOLDER_NAMESPACE, name)))

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        """What a placeholder set is promised depends on the nodes of its pods."""
        if (node := after or before) is not None:
            for pod in self._placeholders.store.by_index(BY_NODE, node.metadata.name):
                self._belonging_changed(None, pod)


def _content(item: Object) -> Object:
    """What is kept of it, without its version."""
    return replace(item, metadata=_NO_METADATA)
