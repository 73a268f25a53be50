"""docs/restore.md: Kueue's CRDs are deleted, and with them every queue and Workload. They come back as
`pulumi up --refresh` brings them, while the jobs of before are still there.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import pytest

from tests import built, envtest
from tests.envtest import ControlPlane, Programs
from tests.envtest.kueue import define, definitions
from tests.integration.adopt.conftest import NEEDED, configuration
from tests.integration.adopt.shapes import PRIORITIES
from tests.integration.adopt.world import JOBS, KUEUE, World, submit
from tests.waiting import eventually

_KINDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WORKLOADS: Final = f"{KUEUE}/namespaces/default/workloads"


@pytest.fixture
def own_world(tmp_path: Path) -> Iterator[tuple[World, Programs]]:
    """A control plane for one test: nothing of it is left as it was."""
    programs = built.programs(*NEEDED)
    with envtest.control_plane(tmp_path, programs, kinds=definitions(programs)) as plane:
        yield World(plane), programs


def test_a_job_is_queued_anew_when_the_kinds_of_kueue_come_back(own_world: tuple[World, Programs]) -> None:
    world, programs = own_world
    with _kueue(world.plane, programs):
        world.create(PRIORITIES)
        submit(world)
        eventually("the job runs", lambda: not _job(world)["spec"]["suspend"])
        before = _uids(world)
        _delete_kinds(world)
        eventually("Kueue has stopped the job: its Workload is gone", lambda: _job(world)["spec"]["suspend"])
    # Its chart and CRDs are applied again, and Kueue's pods start anew.
    define(world.plane, programs)
    with _kueue(world.plane, programs):
        # Without the priority class that the job names, Kueue makes no Workload for it.
        world.create(PRIORITIES)
        found = eventually("Kueue makes a Workload for the job that is there", lambda: _uids(world))
        assert not found & before
        eventually("the job runs again", lambda: not _job(world)["spec"]["suspend"])


def _kueue(plane: ControlPlane, programs: Programs) -> AbstractContextManager[Any]:
    return envtest.kueue(plane, programs, config=configuration())


def _job(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.plane.call("GET", f"{JOBS}/runs")
    return found


def _uids(world: World) -> set[str]:
    return {each["metadata"]["uid"] for each in world.plane.call("GET", _WORKLOADS)["items"]}


def _delete_kinds(world: World) -> None:
    """Kueue releases its objects itself while it still runs."""
    paths = [
        f"{_KINDS}/{each['metadata']['name']}"
        for each in world.plane.call("GET", _KINDS)["items"]
        if each["spec"]["group"] == "kueue.x-k8s.io"
    ]
    for path in paths:
        world.plane.call("DELETE", path)
    eventually("the kinds are gone", lambda: not any(map(world.find, paths)))
