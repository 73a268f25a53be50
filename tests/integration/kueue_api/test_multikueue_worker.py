"""On a MultiKueue worker: a Workload as the manager's Kueue 0.19.2 makes it here, before there is a job.

The manager deletes the Workload, with what it has tried, when its spec is not what the manager wrote
(isRemoteSpecOutOfSync of pkg/controller/admissionchecks/multikueue). Without a job no Kueue takes the quota
of an evicted Workload back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import pytest

from muster.model import names
from tests.integration.kueue_api.world import (
    POLICY,
    REQUESTS,
    TEAM,
    WORKLOADS,
    Object,
    World,
    condition,
    holds,
    is_ours,
    pod,
)
from tests.waiting import eventually

_AT: Final = f"{WORKLOADS}/remote"


@pytest.mark.parametrize("policy", [{}, {"onStockOut": "nextFlavor"}], ids=["retry", "nextFlavor"])
def test_a_gang_backs_off_without_a_change_of_its_spec_and_tries_again(world: World, policy: Object) -> None:
    with world.policy(**policy), world.manager(), _dispatched(world, pinned=not policy) as spec:
        (first,) = eventually("it has asked", partial(_asked, world))
        world.answer(first, "Failed", reason="ResourcePoolExhausted")
        said = eventually("it says when it tries again", lambda: _said(world, "try 2 at"))
        assert "released everything (out of stock: ResourcePoolExhausted: said by a test)" in said
        assert "MultiKueue" in said
        eventually("it has given back its capacity", lambda: not _asked(world, first))
        (second,) = eventually("it has asked anew", partial(_asked, world, first))
        world.provision(second)
        eventually("it is admitted", lambda: holds(world.plane.call("GET", _AT), "Admitted"))
        live = world.plane.call("GET", _AT)
        assert live["spec"] == spec, "the manager would delete it"
        assert condition(live, "Evicted")["status"] != "True"


def test_a_gang_that_never_fits_says_so_and_is_not_dispatched_again_and_again(world: World) -> None:
    with world.manager(), world.policy(flavors=_of_one_node(world)), _dispatched(world, count=2) as spec:
        said = eventually("it says so", lambda: _said(world, "refused: "))
        assert "MultiKueue manager" in said
        assert not _asked(world)
        assert world.plane.call("GET", _AT)["spec"] == spec


@contextmanager
def _dispatched(world: World, *, count: int = 1, pinned: bool = True) -> Iterator[Object]:
    """The Workload that the manager has made; yields its spec as it is stored. `pinned`: to a pool."""
    template = pod("l4")
    if not pinned:
        del template["nodeSelector"]
    pods = {"name": "main", "count": count, "template": {"spec": {"restartPolicy": "Never", **template}}}
    labels = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
    body = {
        "apiVersion": names.KUEUE_API_VERSION,
        "kind": "Workload",
        "metadata": {"name": "remote", "namespace": TEAM, "labels": labels},
        "spec": {"queueName": "default", "active": True, "priority": 1000, "podSets": [pods]},
    }
    made = world.plane.call("POST", WORKLOADS, body)
    try:
        yield made["spec"]
    finally:
        world.delete(_AT)


def _asked(world: World, *but: Object) -> list[Object]:
    known = {each["metadata"]["uid"] for each in but}
    uid = world.plane.call("GET", _AT)["metadata"]["uid"]
    found = [each for each in world.items(REQUESTS) if is_ours(each, uid)]
    return [
        each
        for each in found
        if each["metadata"]["uid"] not in known and "deletionTimestamp" not in each["metadata"]
    ]


def _said(world: World, words: str) -> str:
    """The message of our check, once it has these words."""
    states = (world.plane.call("GET", _AT).get("status") or {}).get("admissionChecks") or []
    found = (each["message"] for each in states if each["name"] == names.ADMISSION_CHECK)
    return next((message for message in found if words in message), "")


def _of_one_node(world: World) -> list[Object]:
    """The flavors of our policy, each with one node."""
    flavors: list[Object] = world.plane.call("GET", POLICY)["spec"]["flavors"]
    return [{**each, "maxNodes": 1} for each in flavors]
