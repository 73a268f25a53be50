"""Reads `muster:departments`: the queue tree, to any depth."""

from muster.config.allowances import Pools, parse_allowance
from muster.config.kai_queues import parse_queue as parse_kai_queue
from muster.config.tenancy import parse_access
from muster.model import names
from muster.model.keys import read
from muster.model.kueue import CohortOptions, QueueOptions
from muster.model.queues import Department, Preemption, Queueing, Reclaim, Team, Within
from muster.model.section import Section


def parse_department(section: Section, name: str, pools: Pools) -> Department:
    """A department and everything below it. Children are sorted by name, because the engine keeps no
    order.
    """
    allowance = parse_allowance(section, pools)
    departments = section.each("departments", lambda child, key: parse_department(child, key, pools))
    teams = section.each("teams", lambda child, key: parse_team(child, key, pools))
    kai = parse_kai_queue(section.section("kai"), is_team=False)
    kueue = read(CohortOptions, section.section("kueue")) or CohortOptions()
    section.close()
    return Department(
        name=name,
        allowance=allowance,
        departments=tuple(sorted(departments, key=lambda department: department.name)),
        teams=tuple(sorted(teams, key=lambda team: team.name)),
        kai=kai,
        kueue=kueue,
    )


def parse_team(section: Section, name: str, pools: Pools) -> Team:
    """A team. Everything but its quota has a default."""
    first, *further = _namespaces(section) or (name,)
    team = Team(
        name=name,
        namespace=first,
        further_namespaces=tuple(further),
        queue=section.text("queue"),
        allowance=parse_allowance(section, pools),
        priorities=section.words("priorities"),
        local_queue=section.text("localQueue") or names.DEFAULT_LOCAL_QUEUE,
        preemption=_preemption(section.section("preemption")),
        queueing=section.choice("queueing", Queueing, Queueing.BEST_EFFORT) or Queueing.BEST_EFFORT,
        kai=parse_kai_queue(section.section("kai"), is_team=True),
        kueue=read(QueueOptions, section.section("kueue")) or QueueOptions(),
        access=parse_access(section),
    )
    section.close()
    return team


def _namespaces(section: Section) -> tuple[str, ...]:
    """One as `namespace`, or several as `namespaces`."""
    one, several = section.text("namespace"), section.words("namespaces")
    if one is not None and section.has("namespaces"):
        section.note("namespaces", "is written beside `namespace`.", "keep one of the two.")
    return several or ((one,) if one is not None else ())


def _preemption(section: Section) -> Preemption:
    known = Preemption()
    preemption = Preemption(
        within=section.choice("within", Within, known.within) or known.within,
        reclaim=section.choice("reclaim", Reclaim, known.reclaim) or known.reclaim,
    )
    section.close()
    return preemption
