"""A set of placeholders as the request that it stands for.

Where no autoscaler answers a ProvisioningRequest, a gang asks for nodes by pods of ours
(docs/decisions/023-gangs-by-placeholders.md). Computes such a request from our PodTemplates (what is asked
for, and since when), from the pods and from their nodes. The API server keeps no object of it. Pure: the view
reads the caches, placeholder_pods.py writes the pods.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import groupby
from typing import Final

from muster.controller.gangs.demand import amounts_once
from muster.controller.gangs.identity import (
    number_of_placeholder,
    place_of_template,
    request_of_placeholder,
    request_of_template,
)
from muster.controller.gangs.objects import (
    Condition,
    Node,
    Placeholder,
    PodTemplate,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
    RequestedPodSet,
    TemplateReference,
    Toleration,
)
from muster.controller.gangs.verify import is_tolerated, is_usable, selects
from muster.controller.kube.resource import ObjectMeta
from muster.model.names import GROUP, HELD_TAINT_KEY, PLACEHOLDER_CLASS, PLACEHOLDER_NAMESPACE, SET_LABEL
from muster.model.pods import Amounts
from muster.model.quantities import parse_quantity, read_count

ASKED: Final = f"{GROUP}/placeholders"
"""On a PodTemplate: how many placeholders it stands for, of how many in the set: `4 of 6`."""
KEPT: Final = f"{GROUP}/kept-annotations"
"""On a PodTemplate: annotations that its pods have of their own, and that ours must not contradict."""

HANDOVER: Final = timedelta(minutes=10)
"""How long a gang that may start may take to place its pods, before others may have the room."""

_LEAVING: Final = frozenset({"karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler"})
"""Taints of nodes that their autoscaler takes away."""
_JOINED: Final = "; "
"""Between what is said of pods without a node and what became of others."""
_SHORTEST_PAUSE: Final = timedelta(seconds=1)
_LONGEST_PAUSE: Final = timedelta(minutes=2)
SILENT: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints of nodes whose kubelet does not report: they may come back, and placeholders tolerate them for a
while (placeholder_pods.py).
"""


class PlaceholderSet(ProvisioningRequest, frozen=True):
    """One request of a gang. `pods`: those that have not ended."""

    pods: tuple[Placeholder, ...] = ()
    ended: tuple[Placeholder, ...] = ()
    """Those that have: their node was drained, or its kubelet has rejected them."""
    held_as: str = ""
    """The value of the taint on its nodes: its name, or that of all sets of an elastic job."""
    bound: int = 0
    """Placeholders that have a node, ready or not: capacity that is kept from others."""
    standing: int = 0
    """Placeholders on nodes where a pod of the gang could start now."""
    untainted: tuple[str, ...] = ()
    """Once all of them stand: the nodes that lack our taint."""
    lost: tuple[Placeholder, ...] = ()
    """Those on nodes that no pod of the gang can enter any more: they are asked for again."""
    kept: tuple[frozenset[str], ...] = ()
    """Of each PodSet: annotations that its pods have of their own."""

    @property
    def count(self) -> int:
        return sum(pod_set.count for pod_set in self.spec.pod_sets)

    progressed_at: datetime | None = None
    """When the last of its nodes came, or stopped to report, or it was asked for."""

    def resting(self, now: datetime) -> tuple[Placeholder, ...]:
        """Those whose places are not tried again yet."""
        asked = self.metadata.creation_timestamp
        return tuple(each for each in self.ended if (at := again_at(each, asked=asked)) and at > now)

    def lacks_pods(self, now: datetime) -> bool:
        return len(self.pods) + len(self.resting(now)) < self.count

    @property
    def waits_since(self) -> datetime | None:
        """Since when nothing has come: in place of a node that is lost another pod asks."""
        made = (pod.metadata.creation_timestamp for pod in self.pods if not pod.spec.node_name)
        return max((self.progressed_at, *made), key=_order)

    @property
    def waits_for(self) -> str:
        """Why pods of it have no node; empty where that is not known."""
        waiting = self.status.condition("Provisioned")
        return waiting.message.partition(_JOINED)[0] if waiting and waiting.status == "False" else ""

    @property
    def shares_taint(self) -> bool:
        """Other sets of its gang have the same taint: a toleration does not tell whose pods are whose."""
        return self.held_as != self.metadata.name

    @property
    def is_bound(self) -> bool:
        return self.bound >= self.count


def again_at(ended: Placeholder, *, asked: datetime | None) -> datetime | None:
    """When one that has ended is made again, of those that were `asked` for then. The scheduler would bind it
    to the same node, whose kubelet may reject it again: so each place is tried after 1, 2, 4 ... seconds. How
    long they had been asked for when the last one was made is the pause, which no object has to keep.
    """
    made = ended.metadata.creation_timestamp
    if made is None or asked is None:
        return None
    return made + min(max(made - asked, _SHORTEST_PAUSE), _LONGEST_PAUSE)


def toleration_of(name: str) -> Toleration:
    """Of the taint with this value."""
    return Toleration(key=HELD_TAINT_KEY, operator="Equal", value=name, effect="NoSchedule")


def held_for(node: Node) -> str:
    """The value of our taint on it; empty where it has none."""
    return node.taint_value(HELD_TAINT_KEY)


def is_asked_by_pods(template: PodTemplate) -> bool:
    return ASKED in template.metadata.annotations


def held_as(template: PodTemplate) -> str:
    """The value of the taint on the nodes of its set. A template of an earlier release does not say it."""
    return template.metadata.labels.get(SET_LABEL) or request_of_template(template.metadata.name)


def sets_of(
    templates: Iterable[PodTemplate],
    placeholders: Iterable[Placeholder],
    *,
    node: Callable[[str], Node | None],
    why: Callable[[Iterable[Placeholder]], str] = lambda _: "",
    used: Callable[[str], Amounts] = lambda _: {},
) -> Iterator[PlaceholderSet]:
    """The sets of one gang that are asked for. One whose templates are not all written is not. `why`: why
    these placeholders have no node; `used`: what all pods on a node take. Raises ValueError for a bad
    quantity.
    """
    asked = sorted(
        filter(is_asked_by_pods, templates), key=lambda each: place_of_template(each.metadata.name)
    )
    pods: dict[str, list[Placeholder]] = {}
    for pod in placeholders:
        if pod.metadata.namespace == PLACEHOLDER_NAMESPACE and not pod.metadata.deletion_timestamp:
            pods.setdefault(request_of_placeholder(pod.metadata.name), []).append(pod)
    for name, group in groupby(asked, key=lambda each: request_of_template(each.metadata.name)):
        written = tuple(group)
        counts = [_count(template) for template in written]
        if sum(count for count, _ in counts) == counts[0][1]:
            own = pods.get(name, ())
            places = _places(own, node, used)
            yield _set(name, written, [count for count, _ in counts], own, places, why)


def _set(
    name: str,
    templates: Sequence[PodTemplate],
    counts: Sequence[int],
    pods: Iterable[Placeholder],
    places: Mapping[str, "_Place"],
    why: Callable[[Iterable[Placeholder]], str],
) -> PlaceholderSet:
    first, taint, listed = templates[0].metadata, held_as(templates[0]), tuple(pods)
    held = tuple(pod for pod in listed if not pod.status.has_ended)
    ended = tuple(pod for pod in listed if pod.status.has_ended)
    placed = [(pod, place) for pod in held if (place := places.get(pod.spec.node_name))]
    standing = [pod for pod, place in placed if place.admits(pod) and is_usable(place.node)]
    is_whole = len(standing) >= sum(counts)
    waiting = (pod for pod in held if not pod.spec.node_name)
    own = dict.fromkeys(pod.spec.node_name for pod in standing)
    untainted = tuple(each for each in own if held_for(places[each].node) != taint) if is_whole else ()
    asked_at = max((each.metadata.creation_timestamp for each in templates), key=_order)
    conditions = [Condition(type="Accepted", status="True", reason="Asked", last_transition_time=asked_at)]
    if is_whole and not untainted:
        since = max((_bound_since(pod, places) or asked_at for pod in standing), key=_order)
        whole = Condition(type="Provisioned", status="True", reason="Bound", last_transition_time=since)
        conditions.append(whole)
    elif words := _JOINED.join(filter(None, (why(waiting), _ending(ended)))):
        conditions.append(Condition(type="Provisioned", status="False", reason="Waiting", message=words))
    return PlaceholderSet(
        metadata=ObjectMeta(
            name=name,
            namespace=first.namespace,
            uid=first.uid,
            creation_timestamp=asked_at,
            labels=first.labels,
            annotations=first.annotations,
        ),
        spec=ProvisioningRequestSpec(
            provisioning_class_name=PLACEHOLDER_CLASS,
            pod_sets=tuple(
                RequestedPodSet(pod_template_ref=TemplateReference(name=template.metadata.name), count=count)
                for template, count in zip(templates, counts, strict=True)
            ),
        ),
        status=ProvisioningRequestStatus(conditions=tuple(conditions)),
        pods=held,
        ended=ended,
        held_as=taint,
        bound=sum(1 for pod in held if pod.spec.node_name),
        standing=len(standing),
        progressed_at=max((asked_at, *(_bound_since(pod, places) for pod, _ in placed)), key=_order),
        untainted=untainted,
        lost=tuple(pod for pod, place in placed if not place.admits(pod, is_back=True)),
        kept=tuple(_kept_fields(template) for template in templates),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """A node with placeholders of a set."""

    node: Node
    has_room: bool
    """Its allocatable amounts still hold what is on it: a GPU that turns unhealthy is taken out of them."""

    def admits(self, pod: Placeholder, *, is_back: bool = False) -> bool:
        """Whether a pod like this one could enter now. The scheduler found so when it bound the placeholder,
        which says nothing about what happened to the node since. `is_back`: were its kubelet to report again.

        Karpenter calls a node initialized a second later at the earliest, which says no more than that
        (pkg/controllers/nodeclaim/lifecycle/initialization.go of v1.14.1).
        """
        silent = SILENT if is_back else frozenset()
        taints = (each for each in self.node.spec.taints if each.key not in silent)
        return (
            self.has_room
            and not is_leaving(self.node)
            and selects(pod.spec.node_selector, pod.spec.required_terms, self.node)
            and all(is_tolerated(taint, pod.spec.tolerations) for taint in taints)
        )


def _places(
    pods: Iterable[Placeholder], node: Callable[[str], Node | None], used: Callable[[str], Amounts]
) -> Mapping[str, _Place]:
    """The nodes of these placeholders, by name."""
    kinds: dict[int, Amounts] = {}
    taken: dict[str, dict[str, Fraction]] = {}
    for pod in pods:
        if (name := pod.spec.node_name) and not pod.status.has_ended:
            kind = number_of_placeholder(pod.metadata.name)
            if kind not in kinds:  # The pods of one PodSet are alike.
                kinds[kind] = amounts_once(pod.spec)
            here = taken.setdefault(name, {})
            for resource, amount in kinds[kind].items():
                here[resource] = here.get(resource, Fraction(0)) + amount
    nodes = {name: found for name in taken if (found := node(name))}
    # The caches of pods and of placeholders follow each other at a distance, so both sums have to fit.
    return {
        name: _Place(
            found, has_room=all(_holds(found, each, taken[name]) for each in (taken[name], used(name)))
        )
        for name, found in nodes.items()
    }


def _holds(node: Node, amounts: Amounts, own: Amounts) -> bool:
    """Of what is not its own a pod minds nothing but the number of pods, as the scheduler has it."""
    size = node.status.allocatable
    minded = (
        (name, amount) for name, amount in amounts.items() if amount and (own.get(name) or name == "pods")
    )
    return all(amount <= parse_quantity(str(size.get(name, 0))) for name, amount in minded)


def is_leaving(node: Node) -> bool:
    """It takes no new pod any more, and will not again."""
    is_going = node.spec.unschedulable or node.metadata.deletion_timestamp is not None
    return is_going or any(taint.key in _LEAVING for taint in node.spec.taints)


def has_changed(before: Node | None, after: Node | None) -> bool:
    """Whether this change of a node is one to the placeholders on it."""
    return before is None or after is None or _facts(before) != _facts(after)


def _facts(node: Node) -> tuple[object, ...]:
    labels, size = node.metadata.labels, node.status.allocatable
    return is_usable(node), is_leaving(node), labels, node.spec.taints, size


def _ending(ended: Iterable[Placeholder]) -> str:
    """What became of those that have ended."""
    reasons = sorted({pod.status.reason for pod in ended if pod.status.reason})
    return f"a placeholder was rejected or ended on its node: {', '.join(reasons)}" if reasons else ""


def _bound_since(pod: Placeholder, places: Mapping[str, _Place]) -> datetime | None:
    bound = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    ready = places[pod.spec.node_name].node.status.condition("Ready")
    return max((each.last_transition_time if each else None for each in (bound, ready)), key=_order)


def _order(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


def _count(template: PodTemplate) -> tuple[int, int]:
    count, _, total = template.metadata.annotations.get(ASKED, "").partition(" of ")
    return read_count(count, most_digits=6) or 0, read_count(total, most_digits=6) or 0


def size_of_set(template: PodTemplate) -> int:
    """The placeholders of the whole set that this template belongs to."""
    return _count(template)[1]


def _kept_fields(template: PodTemplate) -> frozenset[str]:
    return frozenset(template.metadata.annotations.get(KEPT, "").split(",")) - {""}


def asked(count: int, total: int) -> str:
    """The value of `ASKED`."""
    return f"{count} of {total}"
