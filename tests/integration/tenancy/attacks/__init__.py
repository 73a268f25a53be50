"""Every attack of a tenant, by what it is after."""

from typing import Final

from tests.integration.tenancy.attack import Attack
from tests.integration.tenancy.attacks import neighbours, pods, queues, services, sizes

ALL: Final[tuple[Attack, ...]] = (
    *queues.ATTACKS,
    *sizes.ATTACKS,
    *pods.ATTACKS,
    *services.ATTACKS,
    *neighbours.ATTACKS,
)
