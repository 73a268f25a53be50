"""Config paths of departments and teams."""

from muster.model.queues import Department, Team
from muster.model.violations import at


def department_path(chain: tuple[Department, ...]) -> str:
    """`muster:departments.research.departments.vision` for the chain from the top to the department."""
    parts = ["muster:departments"]
    for department in chain:
        parts += [department.name, "departments"]
    return at(*parts[:-1])


def team_path(chain: tuple[Department, ...], team: Team) -> str:
    return at(department_path(chain), "teams", team.name)
