"""How KAI divides what kai-prod renders, without our gate: quotas, limits, weights, and who is evicted."""

import pytest

from muster.model.queues import Team
from muster.model.stack import Stack
from tests.integration.real_kai.world import World

_TEAMS = ("training", "notebooks", "serving")


@pytest.fixture
def full(world: World) -> World:
    """With every node of the pool there."""
    for number in range(4):
        world.node(f"gpu-{number}", gpus=8)
    return world


def _fill(world: World, team: str, count: int, *, priority: str = "train", since: int = 0) -> None:
    for number in range(since, since + count):
        world.pod(f"{team}-{priority}-{number}", queue=team, priority=priority)


def _have(world: World) -> dict[str, int]:
    return {team: world.bound(queue=team) for team in _TEAMS}


def test_what_nobody_asks_for_is_divided_by_weight_and_taken_back_by_who_has_quota(
    full: World, stack: Stack
) -> None:
    teams: dict[str, Team] = {team.name: team for _, team in stack.teams()}
    assert teams["training"].weight == 2 * (teams["notebooks"].weight or 1)
    _fill(full, "notebooks", 12)
    full.eventually("its quota and all that it may borrow", lambda: _have(full)["notebooks"] == 8)
    _fill(full, "training", 40)
    full.eventually(
        "twelve GPUs that serving leaves are divided two to one",
        lambda: _have(full) == {"training": 24, "notebooks": 8, "serving": 0},
    )
    _fill(full, "serving", 20)
    full.eventually(
        "everybody has his quota", lambda: _have(full) == {"training": 16, "notebooks": 4, "serving": 12}
    )


def test_non_preemptible_work_keeps_to_the_quota_and_takes_it_from_its_own_team(full: World) -> None:
    _fill(full, "notebooks", 8)
    full.eventually("preemptible work goes over quota", lambda: _have(full)["notebooks"] == 8)
    _fill(full, "notebooks", 6, priority="build")
    full.eventually("as much as the quota is", lambda: _of(full, "build") == 4)
    full.stays(lambda: _of(full, "build") == 4, "never more")


def _of(world: World, priority: str) -> int:
    return sum(
        "nodeName" in pod["spec"] and f"-{priority}-" in pod["metadata"]["name"] for pod in world.pods()
    )
