"""A gang as ProvisioningRequests: one for each distinct shape, in the order in which they are asked for.

Decides how PodSets are grouped into requests and which comes first. One global order of pools, the same for
every gang, is one half of what keeps two gangs from holding half each for ever; line.py is the other.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import msgspec

from muster.controller.gangs.demand import Demand
from muster.controller.gangs.identity import digest
from muster.model.gangpolicy import FlavorPolicy
from muster.model.names import JOB_PARAMETER_PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One ProvisioningRequest of a gang. `shape` names it within the gang."""

    shape: str
    demands: tuple[Demand, ...]
    flavor: FlavorPolicy
    parameters: Mapping[str, str]

    @property
    def pool(self) -> str:
        return self.flavor.name

    @property
    def count(self) -> int:
        return sum(demand.count for demand in self.demands)

    @property
    def shares_nodes(self) -> bool:
        return any(demand.shares_nodes for demand in self.demands)

    @property
    def needs_digest(self) -> str:
        """Where its pods may go: labels and tolerations, those of their flavors among them."""
        places = [(sorted(d.needs.node_selector.items()), d.needs.tolerations) for d in self.demands]
        return digest(msgspec.json.encode(places).decode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """What has to stand before any pod of it may start."""

    asks: tuple[Ask, ...]
    """Scarcest first."""
    present: tuple[Demand, ...]
    """PodSets that nothing is asked for and that must fit on nodes which exist."""
    running: tuple[Demand, ...] = ()
    """While it grows: the pods of it that have their nodes, for which nothing is asked."""

    @property
    def is_split(self) -> bool:
        return len(self.asks) > 1

    @property
    def shares_nodes(self) -> bool:
        return any(ask.shares_nodes for ask in self.asks)


def split(found: Iterable[Demand], *, wishes: Mapping[str, str], running: Iterable[Demand] = ()) -> Gang:
    """The gang that these demands make. `wishes`: annotations of the job, some of which name parameters."""
    listed = tuple(found)
    asked = sorted((demand for demand in listed if _asks(demand)), key=_order)
    return Gang(
        asks=tuple(_asked(asked, wishes)),
        present=tuple(demand for demand in listed if not _asks(demand) and demand.flavor.verify_nodes),
        running=tuple(running),
    )


def _asks(demand: Demand) -> bool:
    return demand.managed and bool(demand.flavor.provisioning_class_name)


def _order(demand: Demand) -> tuple[int, str, str]:
    return -demand.flavor.scarcity, demand.flavor.name, demand.pod_set


def _asked(ordered: list[Demand], wishes: Mapping[str, str]) -> Iterator[Ask]:
    """One request a PodSet where the class takes no more, else one a pool.

    Identical PodSets are not merged into one larger set: each needs its own consume annotation, and some
    autoscalers count a request's pods per template.
    """
    for pool, together in groupby(ordered, key=lambda demand: demand.flavor.name):
        group = tuple(together)
        flavor = group[0].flavor
        parameters = _parameters(wishes, flavor)
        if flavor.one_pod_set_per_request:
            for demand in group:
                yield Ask(shape=demand.pod_set, demands=(demand,), flavor=flavor, parameters=parameters)
        else:
            yield Ask(shape=f"pool/{pool}", demands=group, flavor=flavor, parameters=parameters)


def _parameters(wishes: Mapping[str, str], flavor: FlavorPolicy) -> Mapping[str, str]:
    """The policy's parameters; a job may change the value of those that the policy names, and add none."""
    return {
        name: wishes.get(JOB_PARAMETER_PREFIX + name, value)[:255]
        for name, value in flavor.parameters.items()
    }
