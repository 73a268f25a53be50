"""Warnings of jobs whose nodes talk to each other more slowly than their machines could."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from muster.check.admission import Admission
from muster.check.demands import Demand
from muster.check.policies import Finding, Level
from muster.model import names
from muster.model.fabrics import missing_for

NETWORK: Final = "the network between nodes"


def slower_than_possible(admission: Admission, found: Sequence[Demand]) -> Iterator[Finding]:
    """One warning for each group of pods and each pool on which it would run on several nodes."""
    pools = {pool.flavor: pool for pool in admission.stack.pools}
    for demand in found:
        if not demand.each.get(names.GPU_RESOURCE):
            continue
        for place in demand.places:
            missing = missing_for(pools[place.pool], demand.each) if place.nodes > 1 else ""
            if missing:
                message = (
                    f"{demand.name} takes {place.nodes} nodes of pool {place.pool}, "
                    f"which talk over their first network card: {missing}"
                )
                yield Finding(Level.WARNED, NETWORK, message)
