"""Who queues and admits the work: one module a scheduler."""

from collections.abc import Mapping
from typing import Final, Protocol

import pulumi

from muster.components.context import PlatformContext
from muster.components.schedulers import kai, kueue
from muster.components.schedulers.kai import Kai
from muster.components.schedulers.kueue import Kueue
from muster.model.stack import Scheduler, Stack
from muster.render.manifest import Manifest


class SchedulerComponents(Protocol):
    """What a scheduler's module makes. The modules themselves have this shape."""

    def install(
        self, name: str, context: PlatformContext, opts: pulumi.ResourceOptions, /
    ) -> Kueue | Kai | None:
        """None where the cluster has it already."""

    def shared_objects(self, stack: Stack, /) -> dict[str, list[Manifest]] | None:
        """What queues refer to, by name; None where `install` makes that."""

    def departments(self) -> str:
        """What the bundle of the departments' own queues is called."""


ROOMS: Final[Mapping[Scheduler, SchedulerComponents]] = {Scheduler.KUEUE: kueue, Scheduler.KAI: kai}
