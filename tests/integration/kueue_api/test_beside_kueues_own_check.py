"""Kueue's own provisioning controller runs beside ours, wherever ProvisioningRequests are served.

It deletes every request whose owner's name is a Workload's that it looks at. Ours belong to a PodTemplate,
which belongs to the Workload.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from muster.model import names
from muster.model.stack import GangAdmission, GangMode
from muster.render import kueue
from tests.envtest import path_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.world import JOBS, REQUESTS, TEAM, TEMPLATES, WORKLOADS, World, is_theirs
from tests.unit.model.kueue_files import rendered
from tests.waiting import eventually


def test_our_requests_survive_its_reconciles_and_die_with_their_workload(world: World) -> None:
    with world.manager():
        world.submit("ours", "l4")
        (request,) = eventually("we have asked", partial(world.asked, "ours"))
        _is_swept_beside(world, request)

        world.provision(request)
        world.wait_until_runs("ours")
        _is_swept_beside(world, request)
        assert world.entry("ours")["state"] == "Ready"

    # We are gone. What we wrote goes with its Workload all the same.
    world.delete(f"{JOBS}/ours")
    for at in (WORKLOADS, TEMPLATES, REQUESTS):
        world.wait_until_empty(at)


def test_its_gangs_and_ours_are_admitted_side_by_side(world: World) -> None:
    queue = _its_queue(world)
    with world.manager():
        world.submit("ours", "l4")
        world.submit("theirs", "l4", queue=queue)
        (mine,) = eventually("we have asked", partial(world.asked, "ours"))
        (other,) = eventually("Kueue has asked", partial(world.requests, "theirs"))
        assert is_theirs(other, world.uid("theirs"))
        for request in (mine, other):
            world.provision(request)
        for name in ("ours", "theirs"):
            world.wait_until_runs(name)
        assert len(world.requests("ours")) == 1
        assert len(world.requests("theirs")) == 1
    world.clear()
    for path in (f"{_LOCAL_QUEUES}/{queue}", f"{_QUEUES}/{queue}"):
        world.delete(path)


_QUEUES = f"/apis/{names.KUEUE_API_VERSION}/clusterqueues"
_LOCAL_QUEUES = f"/apis/{names.KUEUE_API_VERSION}/namespaces/{TEAM}/localqueues"


def _is_swept_beside(world: World, request: dict[str, Any]) -> None:
    """Kueue looks at the Workload, as the end of a request that it takes for its own shows; ours stays."""
    forged = _owned_by_the_workload(world, request)
    eventually(
        "Kueue has deleted the request that the Workload owns",
        lambda: forged not in {each["metadata"]["name"] for each in world.items(REQUESTS)},
    )
    (left,) = world.asked("ours")
    assert left["metadata"]["uid"] == request["metadata"]["uid"]


def _owned_by_the_workload(world: World, request: dict[str, Any]) -> str:
    workload = world.workload("ours")
    assert workload is not None
    owner = {
        "apiVersion": names.KUEUE_API_VERSION,
        "kind": "Workload",
        "name": workload["metadata"]["name"],
        "uid": workload["metadata"]["uid"],
    }
    meta = {"generateName": "forged-", "namespace": TEAM, "ownerReferences": [owner]}
    body = {key: request[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": meta}
    name: str = world.plane.call("POST", REQUESTS, body)["metadata"]["name"]
    # Kueue looks at a Workload that changes.
    changed = {"metadata": {"annotations": {"example.com/seen": name}}}
    world.patch(path_of(workload), changed)
    return name


def _its_queue(world: World) -> str:
    """A queue in the team's namespace whose gangs Kueue's own check looks after."""
    builtin = replace(world.ours, gang_admission=GangAdmission(mode=GangMode.BUILTIN))
    for item in kueue.admission_check(builtin):
        apply(world.plane, item)
    for item in rendered(builtin):
        if item["kind"] == "ClusterQueue":
            del item["spec"]["cohortName"]
            for group in item["spec"]["resourceGroups"]:
                for flavor in group["flavors"]:
                    for resource in flavor["resources"]:
                        resource.pop("lendingLimit", None)
                        resource.pop("borrowingLimit", None)
        elif item["kind"] == "LocalQueue":
            item["spec"]["clusterQueue"] = "theirs"
        else:
            continue
        item["metadata"]["name"] = "theirs"
        apply(world.plane, item)
    return "theirs"
