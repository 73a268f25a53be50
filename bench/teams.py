"""Many teams, each with everything that a team owns."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from muster.config import parse
from muster.model.stack import Stack
from muster.render import kueue
from muster.render.manifest import Manifest

_DEPARTMENTS = 10


class Grain(StrEnum):
    """How many objects become one Pulumi resource."""

    NOTHING = "nothing"
    RESOURCE_PER_QUEUE = "resource-per-queue"
    RESOURCE_PER_OBJECT = "resource-per-object"
    BUNDLE_PER_TEAM = "bundle-per-team"
    BUNDLE_PER_DEPARTMENT = "bundle-per-department"
    ONE_BUNDLE = "one-bundle"


def config_of(teams: int) -> dict[str, Any]:
    """A stack with this many teams in at most ten departments, so that every team has others to borrow
    from.
    """
    count = max(1, min(_DEPARTMENTS, teams // 2))
    departments: dict[str, Any] = {}
    for number in range(teams):
        department = departments.setdefault(f"department-{number % count}", {"teams": {}})
        quota = {"l4": 1, "h100": 1}
        department["teams"][f"team-{number:04d}"] = {
            "quota": quota,
            "borrow": quota,
            "weight": 1 + number % 3,
        }
    gpu = {"capacity": "queued", "provisioningClass": "queued-provisioning.gke.io", "maxNodes": 4000}
    return {
        "muster:artifacts": "local",
        "muster:cluster": {"provider": "existing", "name": "bench", "context": "muster"},
        "muster:pools": {
            "cpu": {"machine": "local-cpu", "minNodes": 1, "maxNodes": 4000},
            "l4": {"accelerator": "nvidia-l4", "machine": "local-l4", **gpu},
            "h100": {"accelerator": "nvidia-h100-80gb", "machine": "local-h100", **gpu},
        },
        "muster:priorities": {"prod": 1000, "dev": 100},
        "muster:departments": departments,
    }


def stack_of(teams: int) -> Stack:
    return parse(config_of(teams), source="bench")


def team_objects(stack: Stack) -> Mapping[str, Mapping[str, list[Manifest]]]:
    """department -> team -> everything of the team's, queue and tenancy."""
    return {
        department: {team: objects for team, objects in teams.items() if team}
        for department, teams in kueue.by_department(stack).items()
    }
