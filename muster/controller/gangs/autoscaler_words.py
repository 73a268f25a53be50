"""What autoscalers say about pods that wait for a node, in the words of a gang's check.

Reads the Events about placeholders and, where Karpenter has begun to make a node, about its NodeClaim. Some
words decide: a gang that keeps nodes and gets no further one fails soon, unless "nodes are booting", and one
without a node if none is to come (deadlines.py). Without Events a gang does not say why. The gravest word is
kept while its Event exists, so that a text does not change with every try of the autoscaler.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from msgspec import field

from muster.controller.gangs.objects import Placeholder
from muster.controller.kube.client import Selection
from muster.controller.kube.resource import Object, Partial, Resource
from muster.controller.runtime.informer import Informer
from muster.model.names import PLACEHOLDER_NAMESPACE

BY_SUBJECT: Final = "subject"


class Subject(Partial, frozen=True):
    kind: str = ""
    name: str = ""


class Said(Object, frozen=True):
    """An Event."""

    involved_object: Subject = field(default_factory=Subject)
    reason: str = ""
    message: str = ""
    event_time: datetime | None = None
    last_timestamp: datetime | None = None
    """When it was repeated last, where it was."""

    @property
    def at(self) -> datetime:
        return self.last_timestamp or self.event_time or self.metadata.creation_timestamp or _LONG_AGO


_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_TITLES: Final = ("events of placeholders", "events of nodeclaims")
EVENTS, CLAIM_EVENTS = (
    Resource("", "v1", "events", "Event", True, Said, annotation_prefixes=(), title=title)
    for title in _TITLES
)
OF_PLACEHOLDERS: Final = Selection(
    namespace=PLACEHOLDER_NAMESPACE, fields="reportingComponent!=default-scheduler"
)
OF_CLAIMS: Final = Selection(namespace="default", fields="involvedObject.kind=NodeClaim")
"""Events about what has no namespace are in this one."""

OUT_OF_STOCK: Final = "out of stock"
NO_MACHINE: Final = "no machine of the pool fits, or none is on offer now"
NO_GROUP: Final = "no node group grows for them"
NONE_COMES: Final = frozenset({OUT_OF_STOCK, NO_MACHINE, NO_GROUP})
"""Words by which no node is on its way, and none will be for a while."""
BOOTING: Final = "nodes are booting"
_NOMINATED: Final = re.compile(r"nodeclaim/([a-z0-9.-]+)")
_RULES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"InsufficientCapacity|in backoff after failed|out.?of.?(resource|stock)|exhausted", OUT_OF_STOCK),
        (
            r"exceed limits for nodepool|limit (exceeded|reached)|max node group size|max total nodes",
            "at its limit",
        ),
        (r"NodeClassNotReady|LaunchFailed|ScaleUpFailed|failed to launch", "the launch of a node failed"),
        (
            r"incompatible|no instance type|not satisfy",
            NO_MACHINE,
        ),
        (r"NotTriggerScaleUp", NO_GROUP),
        (r"Nominated|TriggeredScaleUp", BOOTING),
    )
)
"""The gravest first. Karpenter leaves out what the cloud refused lately, and then writes only why its other
NodePools do not fit: such a text is no proof that the pool's machines are too small."""


def _since_booting(about_pod: Sequence[Said]) -> Iterator[Said]:
    booting = _RULES[-1][0]
    moments = (said.at for said in about_pod if booting.search(f"{said.reason}: {said.message}"))
    since = max(moments, default=_LONG_AGO)
    return (said for said in about_pod if said.at >= since)


def subject_of(said: Said) -> list[str]:
    """What it is about, and the NodeClaim that it names, as `nodeclaim/NAME`."""
    return [said.involved_object.name, *(match[0] for match in _NOMINATED.finditer(said.message))]


@dataclass(frozen=True, slots=True)
class AutoscalerWords:
    """`pods`: Events about placeholders, `claims`: about NodeClaims; both indexed by `BY_SUBJECT`."""

    pods: Informer[Said]
    claims: Informer[Said]

    def why(self, waiting: Iterable[Placeholder]) -> str:
        """Why these have no node; empty where nothing is known. What was said of a pod before its node began
        to boot is over, although its Event is kept for an hour.
        """
        found = [said for pod in waiting for said in _since_booting([*self._about(pod)])]
        for pattern, words in _RULES:
            if any(pattern.search(f"{said.reason}: {said.message}") for said in found):
                return words
        return ""

    def placeholders_of(self, said: Said) -> Iterator[str]:
        """The names of those that it says something of, themselves or by the NodeClaim made for them."""
        subject = said.involved_object
        yield subject.name
        if subject.kind == "NodeClaim":
            for nomination in self.pods.store.by_index(BY_SUBJECT, f"nodeclaim/{subject.name}"):
                yield nomination.involved_object.name

    def _about(self, pod: Placeholder) -> Iterator[Said]:
        for said in self.pods.store.by_index(BY_SUBJECT, pod.metadata.name):
            yield said
            if claim := _NOMINATED.search(said.message):
                yield from self.claims.store.by_index(BY_SUBJECT, claim.group(1))
