"""A member's elastic work loses its quota while a growth of it waits: it is stopped, and waits for all of it.

The real Kueue (0.19.2) finishes the slice that it evicts and leaves the pods, because no slice is left by
which it would stop the work. Our manager has it stopped. The policies are in force, and the backstop is not.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from muster.model import names
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.tenant_ground import (
    GUARANTEE,
    OTHER,
    Ground,
    ground_of,
    named,
    sized,
    work_of,
)
from tests.integration.kueue_api.works import with_gpu, work
from tests.integration.kueue_api.world import MERGE, holds
from tests.waiting import eventually

Object = dict[str, Any]

_TOO_MANY: Final = 3 * GUARANTEE


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground_of(tmp_path_factory.mktemp("slices"), has_backstop=False, brings=()) as made:
        made.plant("")
        yield made


@pytest.fixture(params=["Job", "RayCluster"])
def kind(request: pytest.FixtureRequest, ground: Ground) -> Iterator[str]:
    """The kind of a member's elastic work, which borrows, and waits for more than there is."""
    kind = str(request.param)
    body = named(work_of(kind, 2 * GUARANTEE), "grows")
    body["metadata"]["labels"][names.PRIORITY_LABEL] = "dev"
    body["metadata"]["annotations"] = {names.ELASTIC_JOB: "true"}
    assert ground.ask(names.MEMBER_ACCOUNT, "POST", ground.path(kind), body).is_allowed
    eventually("it runs", lambda: ground.running() == 2 * GUARANTEE)
    _scale(ground, kind, _TOO_MANY)
    eventually("its growth waits", lambda: len(_slices(ground)) == 2)
    yield kind
    ground.clear()


def test_a_preemption_ends_its_pods_and_it_comes_back(ground: Ground, kind: str) -> None:
    body = named(work("Job", with_gpu("l4"), count=GUARANTEE), "promised", OTHER)
    apply(ground.world.plane, body)
    eventually("the guarantee is kept", lambda: ground.running(OTHER) == GUARANTEE)
    eventually("nothing runs without quota", lambda: not ground.running())
    assert ground.world.plane.call("GET", ground.path(kind, "grows"))["spec"]["suspend"]
    ground.world.delete(ground.path("Job", "promised", OTHER))
    _scale(ground, kind, GUARANTEE)
    eventually(
        "it runs with what it asks for now, on quota",
        lambda: ground.running() == ground.reserved() == GUARANTEE,
    )


@pytest.mark.parametrize("then", [_TOO_MANY - 1, 2 * GUARANTEE], ids=["changed", "shrunk"])
def test_an_administrator_stops_it_by_its_workloads(ground: Ground, kind: str, then: int) -> None:
    _scale(ground, kind, then)
    ground.stop()
    eventually("nothing runs without quota", lambda: ground.running() <= ground.reserved())


def _scale(ground: Ground, kind: str, count: int) -> None:
    path = ground.path(kind, "grows")
    body = ground.world.plane.call("GET", path)
    change = {"spec": sized(kind, body, count)}
    assert ground.ask(names.MEMBER_ACCOUNT, "PATCH", path, change, kind=MERGE).is_allowed


def _slices(ground: Ground) -> list[Object]:
    return [each for _, each in ground.existing("Workload") if not holds(each, "Finished")]
