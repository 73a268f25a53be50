"""The controller is removed while gangs wait: they are told, they hold nothing, and nobody is stuck."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from muster.components import gang_authority
from muster.model import names
from tests.envtest import path_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.world import KUEUE, World, condition, is_let_in, is_outside
from tests.waiting import eventually

_QUEUE: Final = f"{KUEUE}/clusterqueues/team-b"
_CHECK: Final = f"{KUEUE}/admissionchecks/{names.ADMISSION_CHECK}"
_WHOSE: Final = f"--deployment={gang_authority.MANAGER}"


@pytest.fixture
def deployed(world: World) -> Iterator[World]:
    """The Deployment that the manager of this host stands for."""
    checks = world.plane.call("GET", _QUEUE)["spec"]["admissionChecksStrategy"]
    apply(world.plane, _deployment())
    yield world
    world.delete(path_of(_deployment()))
    world.patch(_QUEUE, {"spec": {"admissionChecksStrategy": checks}})


def test_a_restart_is_no_removal(deployed: World) -> None:
    with deployed.manager(_WHOSE) as manager:
        deployed.submit("gang", "l4")
        (request,) = eventually("it has asked", partial(deployed.asked, "gang"))
        manager.stop()
        assert deployed.is_active(names.ADMISSION_CHECK)
        (left,) = deployed.asked("gang")
        assert left["metadata"]["uid"] == request["metadata"]["uid"]


def test_gangs_are_told_give_back_what_they_hold_and_can_go_on(deployed: World) -> None:
    with deployed.manager(_WHOSE) as manager:
        deployed.run("running")
        for name, pool in (("asking", "l4"), ("outside", "h100")):
            deployed.submit(name, pool)
            eventually(f"{name} has asked", partial(deployed.asked, name))
        deployed.answer(deployed.asked("outside")[0], "Failed")
        eventually("one waits outside the quota", lambda: is_outside(deployed.workload("outside")))
        deployed.delete(path_of(_deployment()))
        manager.stop()

        # Told, on the check, on the queue, on the gang and on its job.
        active = condition(deployed.plane.call("GET", _CHECK), "Active")
        assert (active["status"], active["reason"]) == ("False", "ControllerRemoved")
        assert "remove the check from the ClusterQueue" in active["message"]
        eventually("the queue says that its check is not there", lambda: _is_closed(deployed))
        assert "has been removed" in deployed.entry("asking")["message"]
        assert "ControllerRemoved" in deployed.reasons("asking")
        # Nothing is held for nobody, and nobody is left deactivated.
        assert not deployed.asked("asking")
        assert not deployed.asked("outside")
        assert is_let_in(deployed.workload("outside"))
        # Who runs, runs.
        assert deployed.holds("running", "Admitted")
        assert len(deployed.asked("running")) == 1

        # It comes back: all as before.
        apply(deployed.plane, _deployment())
        manager.start()
        eventually("its check is active again", lambda: deployed.is_active(names.ADMISSION_CHECK))
        for name in ("asking", "outside"):
            deployed.provision(eventually(f"{name} asks again", partial(deployed.asked, name))[0])
            deployed.wait_until_runs(name)

        # It goes for good, and the check is taken off the queue.
        deployed.submit("last", "l4")
        eventually("it has asked", partial(deployed.asked, "last"))
        deployed.delete(path_of(_deployment()))
        manager.stop()
        deployed.patch(_QUEUE, {"spec": {"admissionChecksStrategy": None}})
        deployed.wait_until_runs("last")


def _deployment() -> dict[str, Any]:
    labels = {"matchLabels": {"app": "manager"}}
    pod = {
        "metadata": {"labels": labels["matchLabels"]},
        "spec": {"containers": [{"name": "manager", "image": "none"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": gang_authority.MANAGER, "namespace": names.SYSTEM_NAMESPACE},
        "spec": {"replicas": 1, "selector": labels, "template": pod},
    }


def _is_closed(world: World) -> bool:
    active = condition(world.plane.call("GET", _QUEUE), "Active")
    return bool(active["status"] == "False" and "inactive AdmissionCheck" in active["message"])
