"""A gang as ProvisioningRequests: one for each distinct shape, in the order of requesting.

Responsible for how PodSets are grouped into requests and for their order. One global order of pools, the same
for every gang, is half of what prevents two gangs from holding half of their capacity each; turn_order.py is
the other half.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import msgspec

from muster.controller.gangs.demand import Demand
from muster.controller.gangs.identity import digest
from muster.model.gangpolicy import FlavorPolicy
from muster.model.names import JOB_PARAMETER_PREFIX, POOL_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec:
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
        way = (self.flavor.provisioning_class_name,) if self.flavor.by_placeholders else ()
        return digest(msgspec.json.encode(places).decode(), *way)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """What must be provisioned before any of its pods may start."""

    request_specs: tuple[RequestSpec, ...]
    """Those that a cloud queues first, and the scarcest first among them: placeholders bring nodes that are
    paid for, in minutes.
    """
    present: tuple[Demand, ...]
    """PodSets without a request, which must fit on existing nodes."""
    running: tuple[Demand, ...] = ()
    """While it scales up: its pods that have their nodes, for which nothing is requested."""

    @property
    def is_split(self) -> bool:
        return len(self.request_specs) > 1

    @property
    def takes_turns(self) -> bool:
        """It may get a part of its capacity and not the rest, while another gang gets that."""
        return self.is_split or any(spec.flavor.by_placeholders for spec in self.request_specs)

    @property
    def placed_first(self) -> tuple[Demand, ...]:
        """Those of `present` that no node of its requests can take: their pool gets no node for this gang."""
        requested = {"", *(spec.pool for spec in self.request_specs)}
        return tuple(
            demand
            for demand in self.present
            if demand.flavor.name not in requested
            and demand.needs.node_selector.get(POOL_LABEL, "") not in requested
        )

    @property
    def on_shared_nodes(self) -> tuple[Demand, ...]:
        """Those on whose nodes pods of other gangs may run."""
        shared = (spec for spec in self.request_specs if not spec.flavor.has_own_nodes)
        return (*(demand for spec in shared for demand in spec.demands), *self.present)

    @property
    def shares_nodes(self) -> bool:
        return any(spec.shares_nodes for spec in self.request_specs)


def split(found: Iterable[Demand], *, annotations: Mapping[str, str], running: Iterable[Demand] = ()) -> Gang:
    """Build the gang of these demands. `annotations`: the job's, some of which set request parameters."""
    listed = tuple(found)
    requested = sorted((demand for demand in listed if _is_requested(demand)), key=_order)
    return Gang(
        request_specs=tuple(_request_specs(requested, annotations)),
        present=tuple(
            demand for demand in listed if not _is_requested(demand) and demand.flavor.verify_nodes
        ),
        running=tuple(running),
    )


def _is_requested(demand: Demand) -> bool:
    """Where placeholders bring the nodes, a pod without a GPU has one, too: the taint of its gang keeps it
    out of any other room there.
    """
    flavor = demand.flavor
    return flavor.by_placeholders or (demand.managed and bool(flavor.provisioning_class_name))


def _order(demand: Demand) -> tuple[bool, int, str, str]:
    flavor = demand.flavor
    return flavor.by_placeholders, -flavor.scarcity, flavor.name, demand.pod_set


def _request_specs(ordered: list[Demand], annotations: Mapping[str, str]) -> Iterator[RequestSpec]:
    """One request a PodSet where the class takes no more, else one a pool.

    Identical PodSets are not merged into one larger set: each needs its own consume annotation, and some
    autoscalers count a request's pods per template.
    """
    for pool, together in groupby(ordered, key=lambda demand: demand.flavor.name):
        group = tuple(together)
        flavor = group[0].flavor
        parameters = _parameters(annotations, flavor)
        if flavor.one_pod_set_per_request:
            for demand in group:
                yield RequestSpec(
                    shape=demand.pod_set, demands=(demand,), flavor=flavor, parameters=parameters
                )
        else:
            yield RequestSpec(shape=f"pool/{pool}", demands=group, flavor=flavor, parameters=parameters)


def _parameters(annotations: Mapping[str, str], flavor: FlavorPolicy) -> Mapping[str, str]:
    """The policy's parameters; a job may change the value of those that the policy names, and add none."""
    return {
        name: annotations.get(JOB_PARAMETER_PREFIX + name, value) for name, value in flavor.parameters.items()
    }
