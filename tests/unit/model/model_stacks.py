"""Stacks for tests: small ones by hand, and any that Hypothesis likes."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from muster import config
from muster.config.document import parse_text
from muster.config.edit import template
from muster.config.stack import examine
from muster.model.clusters import EksCluster, GkeCluster, Provider
from muster.model.machines import MACHINES
from muster.model.pools import Capacity, Pool
from muster.model.priorities import Priority
from muster.model.quantities import Gpus
from muster.model.queues import Allowance, Amount, Bound, Department, Limit, Team
from muster.model.stack import Stack
from muster.render import queues

CPU = Pool(
    name="cpu", machine=MACHINES["e2-standard-4"], gpus_per_node=0, capacity=Capacity.ON_DEMAND, max_nodes=5
)
L4 = Pool(
    name="l4",
    machine=MACHINES["g2-standard-8"],
    gpus_per_node=1,
    capacity=Capacity.QUEUED,
    max_nodes=10,
    provisioning_class="queued-provisioning.gke.io",
)
H100 = Pool(
    name="h100",
    # Eight GPUs, and no network between GPUs that a stack would be warned of.
    machine=MACHINES["a2-ultragpu-8g"],
    gpus_per_node=8,
    capacity=Capacity.QUEUED,
    max_nodes=4,
    provisioning_class="queued-provisioning.gke.io",
)
GKE = GkeCluster(
    name="ml", region="us-central1", project="p", authorized_networks={"office": "198.51.100.0/24"}
)
EKS = EksCluster(
    name="ml", region="us-east-1", zones=("us-east-1a", "us-east-1b"), public_cidrs=("198.51.100.0/24",)
)


def gpus(number: int) -> Amount:
    return Amount(gpus=Gpus(number))


def team(name: str, allowance: Allowance | None = None, *, priorities: tuple[str, ...] = ()) -> Team:
    return Team(name=name, namespace=name, allowance=allowance or Allowance(), priorities=priorities)


def pool(name: str, machine: str, capacity: Capacity, **more: Any) -> Pool:
    """Up to four nodes of a machine with as few accelerators as it comes with."""
    known = MACHINES[machine]
    gpus = known.gpu_counts[0] if known.gpu_counts else 0
    base = Pool(name=name, machine=known, gpus_per_node=gpus, capacity=capacity, max_nodes=4)
    return replace(base, **more)


def stack(*departments: Department, pools: tuple[Pool, ...] = (CPU, L4, H100)) -> Stack:
    priorities = (Priority(100, "dev"), Priority(1000, "prod"))
    return Stack(cluster=GKE, pools=pools, departments=departments, priorities=priorities)


def parsed(text: str) -> Stack:
    """The stack of a file, which has no mistakes."""
    found, errors = examined(text)
    assert errors == []
    assert found is not None
    return found


def examined(text: str) -> tuple[Stack | None, list[str]]:
    """The stack of a file where it can be read, and its mistakes."""
    found, violations = examine(parse_text(text, source="own"))
    return found, [str(each) for each in violations if each.level == "error"]


def stack_text(sections: dict[str, Any]) -> str:
    """A stack file of these sections, in their order."""
    return yaml.safe_dump(
        {"config": {f"muster:{key}": value for key, value in sections.items()}}, sort_keys=False
    )


def new_config(provider: Provider, **sections: Any) -> dict[str, Any]:
    """What `muster new` writes, with these sections in place of its own."""
    written: dict[str, Any] = yaml.safe_load(template("here", provider))["config"]
    return written | {f"muster:{key}": value for key, value in sections.items()}


def new_stack(provider: Provider, **sections: Any) -> Stack:
    return config.parse(new_config(provider, **sections), source="x")


def new_mistakes(provider: Provider, **sections: Any) -> dict[str, str]:
    """path -> message and fix of every error of such a stack, which has some."""
    with pytest.raises(config.ConfigError) as caught:
        new_stack(provider, **sections)
    errors = (each for each in caught.value.violations if each.level == "error")
    return {each.path: f"{each.message} {each.fix}" for each in errors}


def pool_of(some: Stack, name: str) -> Pool:
    named = some.pool(name)
    assert named is not None
    return named


def specs(some: Stack, kind: str) -> dict[str, dict[str, Any]]:
    """name -> spec of every object of a kind that the stack's scheduler gets."""
    return {each["metadata"]["name"]: each["spec"] for each in queues.objects(some) if each["kind"] == kind}


def nominal_quotas(some: Stack, queue: str) -> dict[str, dict[str, str]]:
    """flavor -> resource -> quota of a ClusterQueue, which has one group."""
    (group,) = specs(some, "ClusterQueue")[queue]["resourceGroups"]
    return {
        flavor["name"]: {each["name"]: each["nominalQuota"] for each in flavor["resources"]}
        for flavor in group["flavors"]
    }


def two_teams(first: Allowance, second: Allowance | None = None) -> Stack:
    """`first` is team-a's, `second` team-b's; both in `research`."""
    return stack(Department(name="research", teams=(team("team-a", first), team("team-b", second))))


@st.composite
def _allowances(draw: st.DrawFn) -> Allowance:
    amounts = st.dictionaries(st.sampled_from(["l4", "h100"]), st.integers(0, 2).map(gpus), max_size=2)
    limits = st.builds(
        Limit, otherwise=st.none() | st.sampled_from(Bound), pools=amounts | st.just({"cpu": Bound.NONE})
    )
    return Allowance(
        quota=draw(amounts),
        borrow=draw(limits),
        lend=draw(st.builds(Limit, otherwise=st.none() | st.sampled_from(Bound))),
        weight=draw(st.none() | st.integers(1, 9)),
    )


@st.composite
def stacks(draw: st.DrawFn) -> Stack:
    """Any tree up to three levels deep over the three pools; names are unique, sums may exceed the pools."""
    names = (f"name-{number}" for number in count())

    def teams() -> tuple[Team, ...]:
        owners = tuple(team(next(names), draw(_allowances())) for _ in range(draw(st.integers(0, 2))))
        if not owners or not draw(st.booleans()):
            return owners
        return (*owners, replace(team(next(names)), queue=owners[0].name))

    def department(depth: int) -> Department:
        below = (department(depth - 1),) if depth and draw(st.booleans()) else ()
        allowance = draw(_allowances())
        return Department(name=next(names), allowance=allowance, departments=below, teams=teams())

    return stack(department(2), department(0))
