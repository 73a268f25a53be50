"""The schedulers that a stack may have, a row each: what a place has to know of the stack's, in its answers.

What a layer does for one of them is in the layer's own room, which the layer finds in one table: `ROOMS` of
render/queues.py, of validation/__init__.py and of components/schedulers/__init__.py, and so on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster.model import names
from muster.model.kai import OWN_CLASSES
from muster.model.priorities import Priority
from muster.model.programs import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """`queue_label` and `priority_label` choose the queue and the priority of work; `units` is what the
    scheduler decides about. `own_priorities` exist in any case. `pod_scheduler`: what pods name as theirs
    where it places them itself; empty where Kubernetes' own scheduler does. `local_program`: what a local
    cluster runs in place of a Deployment.

    `admits_jobs`: it admits a job whole, by checks that a controller can answer, and the job keeps its quota
    until it ends. Otherwise pods count one by one, and those of gangs are born behind our gate.
    `has_flavors`: it counts by pools and tries them in an order, and pods get what the nodes of theirs ask.
    """

    proper_name: str
    queue_label: str
    priority_label: str
    units: str
    admits_jobs: bool
    has_flavors: bool
    own_priorities: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    pod_scheduler: str = ""
    local_program: str = ""


class Scheduler(StrEnum):
    KUEUE = "kueue"
    KAI = "kai"

    @property
    def traits(self) -> Traits:
        return _TRAITS[self]

    @property
    def proper_name(self) -> str:
        return self.traits.proper_name

    @property
    def program(self) -> Program:
        return Program(self.value)

    def priorities(self, named: Iterable[Priority]) -> list[Priority]:
        """Those that a stack names, and its own that the stack does not name, highest first."""
        said = list(named)
        taken = {each.name for each in said}
        own = self.traits.own_priorities.items()
        return sorted(
            [*said, *(Priority(value, name) for name, value in own if name not in taken)], reverse=True
        )


_TRAITS: Final[Mapping[Scheduler, Traits]] = {
    Scheduler.KUEUE: Traits(
        proper_name="Kueue",
        queue_label=names.QUEUE_LABEL,
        priority_label=names.PRIORITY_LABEL,
        units="Workloads",
        admits_jobs=True,
        has_flavors=True,
    ),
    Scheduler.KAI: Traits(
        proper_name="KAI",
        queue_label=names.KAI_QUEUE_LABEL,
        priority_label=names.KAI_PRIORITY_LABEL,
        units="PodGroups",
        admits_jobs=False,
        has_flavors=False,
        own_priorities=OWN_CLASSES,
        pod_scheduler=names.KAI_SCHEDULER,
        # muster/local/kai.py
        local_program="kai-scheduler",
    ),
}
