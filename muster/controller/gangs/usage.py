"""What the pods on each node take, kept up with the cache of pods.

A node is added up when a gang looks at it first. After that each pod that comes or goes there changes the
sum, so a look costs what its nodes are, not what their pods are. A node without pods is forgotten.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final, Generic, TypeVar

from muster.controller.gangs.demand import amounts_once
from muster.controller.gangs.indexes import BY_NODE
from muster.controller.gangs.objects import Pod
from muster.controller.runtime.informer import Informer
from muster.model.pods import Amounts

PODS: Final = "pods"
"""The resource by which a node bounds how many pods it takes."""

P = TypeVar("P", bound=Pod)


def used_by(pods: Iterable[Pod]) -> dict[str, Amounts]:
    """What these pods take, by node. Raises ValueError for a bad quantity."""
    found: dict[str, Amounts] = {}
    for pod in pods:
        if place := _place(pod):
            found[place] = _sum(found.get(place, {}), pod, sign=1)
    return found


class NodeUsage(Generic[P]):
    """By the name of the node. `pods`: those on nodes at least, with the index BY_NODE."""

    def __init__(self, pods: Informer[P]) -> None:
        self._pods = pods
        self._used: dict[str, Amounts] = {}
        pods.store.listen(self._changed)

    def of(self, nodes: Iterable[str]) -> dict[str, Amounts]:
        """Nothing for a node without pods. Raises ValueError for a bad quantity."""
        return {name: used for name in nodes if (used := self._of(name))}

    def _of(self, name: str) -> Amounts:
        if (known := self._used.get(name)) is not None:
            return known
        used = used_by(self._pods.store.by_index(BY_NODE, name)).get(name, {})
        if used:
            self._used[name] = used
        return used

    def _changed(self, before: P | None, after: P | None) -> None:
        places = [(pod, _place(pod), sign) for pod, sign in ((before, -1), (after, 1)) if pod]
        known = [(pod, place, sign) for pod, place, sign in places if place in self._used]
        if len(known) == 2 and known[0][1] == known[1][1] and known[0][0].spec == known[1][0].spec:
            return
        for pod, place, sign in known:
            self._change(place, pod, sign=sign)

    def _change(self, place: str, pod: Pod, *, sign: int) -> None:
        try:
            used = _sum(self._used.pop(place, {}), pod, sign=sign)
        except ValueError:
            return  # The next look adds it up again, and reports it.
        if used[PODS]:
            self._used[place] = used


def less(used: Mapping[str, Amounts], pods: Iterable[Pod]) -> dict[str, Amounts]:
    """Without these pods."""
    found = dict(used)
    for pod in pods:
        if (place := _place(pod)) in found:
            found[place] = _sum(found[place], pod, sign=-1)
    return found


def _place(pod: Pod) -> str:
    return "" if pod.status.has_ended else pod.spec.node_name


def _sum(used: Amounts, pod: Pod, *, sign: int) -> Amounts:
    return {
        **used,
        **{
            name: used.get(name, Fraction(0)) + sign * amount
            for name, amount in {**amounts_once(pod.spec), PODS: Fraction(1)}.items()
        },
    }
