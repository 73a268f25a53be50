"""An operator deletes the AdmissionCheck: quota is given back, with the reason, and a Bundle puts it back."""

import asyncio
import json
from functools import partial
from typing import Final

import pytest

from muster.cli import main
from muster.kubernetes.kubeconfig import load_access
from muster.model import names
from muster.provider.api import Cluster, Deadline
from muster.provider.resource import Written, write
from muster.render.kueue.cluster import admission_check
from tests.integration.kueue_api.world import KUEUE, TEAM, Object, World, condition, is_outside
from tests.waiting import eventually

_CHECK: Final = f"{KUEUE}/admissionchecks/{names.ADMISSION_CHECK}"


def test_a_deleted_check_gives_its_quota_back_and_is_made_anew(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    manifests = {"admission-checks": json.dumps(admission_check(world.ours))}
    before = asyncio.run(_applied(world, manifests, {}))
    uid = world.plane.call("GET", _CHECK)["metadata"]["uid"]
    with world.manager():
        world.run("running")
        world.submit("asking", "l4")
        eventually("it has asked", partial(world.asked, "asking"))

        # Kueue keeps it, because queues name it, and keeps the queues active.
        world.delete(_CHECK)
        eventually("it waits outside the quota", lambda: is_outside(world.workload("asking")))
        eventually("its requests are gone", lambda: not world.asked("asking"))
        active = eventually("the check has the reason", lambda: _inactive(world))
        assert active["reason"] == "BeingDeleted"
        eventually("so has an Event", lambda: "GangReleased" in world.reasons("asking"))
        assert world.holds("running", "Admitted")

        assert main(["why", f"{TEAM}/asking", "--kubeconfig", str(world.plane.kubeconfig())]) == 0
        shown = capsys.readouterr().out
        assert f"AdmissionCheck {names.ADMISSION_CHECK} is inactive: it is being deleted" in shown
        assert f"AdmissionCheck {names.ADMISSION_CHECK} is being deleted: nothing is requested" in shown
        assert "Fix: run `pulumi up`" in shown

        written = asyncio.run(_applied(world, manifests, before.state))
        assert written.failures == ()
        assert world.plane.call("GET", _CHECK)["metadata"]["uid"] != uid
        eventually("our check is active", lambda: world.is_active(names.ADMISSION_CHECK))
        world.provision(eventually("it asks again", partial(world.asked, "asking"))[0])
        world.wait_until_runs("asking")
        assert world.holds("running", "Admitted")


async def _applied(world: World, manifests: dict[str, str], state: dict[str, object]) -> Written:
    """What `pulumi up` does for a Bundle."""
    async with Cluster(load_access(str(world.plane.kubeconfig()), None)) as cluster:
        before = manifests if state else {}
        deadline = Deadline(60)
        return await write(
            cluster, manifests, before=before, state=state, deadline=deadline, log_status=lambda _: None
        )


def _inactive(world: World) -> Object | None:
    active = condition(world.plane.call("GET", _CHECK), "Active")
    return active if active["status"] == "False" else None
