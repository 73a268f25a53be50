"""Every attack of a tenant, by what it is after. Those of KAI stacks (kai.py) have a server of their own."""

from typing import Final

from tests.integration.tenancy.attack import Attack
from tests.integration.tenancy.attacks import (
    amounts,
    credentials,
    elastic,
    labels,
    neighbours,
    owners,
    pods,
    queues,
    reserved,
    services,
    sizes,
    templates,
    validity,
)

ALL: Final[tuple[Attack, ...]] = (
    *queues.ATTACKS,
    *amounts.ATTACKS,
    *sizes.ATTACKS,
    *elastic.ATTACKS,
    *pods.ATTACKS,
    *services.ATTACKS,
    *credentials.ATTACKS,
    *labels.ATTACKS,
    *neighbours.ATTACKS,
    *owners.ATTACKS,
    *reserved.ATTACKS,
    *templates.ATTACKS,
    *validity.ATTACKS,
)
