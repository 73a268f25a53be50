"""Reads `muster:departments`: the queue tree, to any depth."""

from muster.config.allowances import Pools, parse_allowance
from muster.model.keys import read
from muster.model.queues import Department, Team
from muster.model.section import Section


def parse_department(section: Section, name: str, pools: Pools) -> Department:
    """A department and everything below it. Children are sorted by name, because the engine keeps no
    order.
    """
    allowance = parse_allowance(section, pools)
    departments = section.each("departments", lambda child, key: parse_department(child, key, pools))
    teams = section.each("teams", lambda child, key: parse_team(child, key, pools))
    department = read(
        Department,
        section,
        name=name,
        allowance=allowance,
        departments=tuple(sorted(departments, key=lambda department: department.name)),
        teams=tuple(sorted(teams, key=lambda team: team.name)),
    )
    return department or Department(name=name)


def parse_team(section: Section, name: str, pools: Pools) -> Team:
    """A team. Everything but its quota has a default."""
    team = read(Team, section, name=name, allowance=parse_allowance(section, pools))
    return team or Team(name=name, namespace=name)
