"""Teams that use another team's queue: its owner is of their department, and sets what is the queue's."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final

from muster.model.kueue import QueueOptions
from muster.model.queues import Allowance, Department, Team
from muster.model.stack import Stack
from muster.model.violations import Violation, at, suggestion
from muster.validation.explicit_fields import explicit_keys
from muster.validation.paths import team_path

_OF_A_QUEUE: Final = ("preemption", "queueing", "kai")


def shared_queue_rules(stack: Stack) -> list[Violation]:
    """Every rule about `queue`."""
    found: list[Violation] = []
    everybody = {team.name: (chain[-1], team) for chain, team in stack.teams()}
    for above, department in stack.walk():
        owners = {team.name for team in department.owners}
        for team in department.teams:
            if team.queue is not None:
                path = team_path((*above, department), team)
                found += [*_owner(everybody, team, at(path, "queue"), owners), *_settings(team, path)]
    return found


def _owner(
    everybody: Mapping[str, tuple[Department, Team]], team: Team, path: str, owners: set[str]
) -> Iterator[Violation]:
    """`owners`: the teams of its department that have a queue."""
    if team.queue in owners or team.queue is None:
        return
    if team.queue == team.name:
        yield Violation(path, "names the team itself.", "remove it: a team has a queue of its own.")
    elif team.queue not in everybody:
        fix = suggestion(team.queue, owners, noun="team with a queue")
        yield Violation(path, f"team {team.queue!r} is unknown.", fix)
    else:
        department, other = everybody[team.queue]
        if other.queue is not None:
            message = f"{other.name} has no queue of its own: its work is in {other.queue}'s."
            yield Violation(path, message, f"write `queue: {other.queue}`.")
        else:
            message = f"{other.name} is of department {department.name}, and so is the quota of its queue."
            fix = "move one of the two: the teams of a queue are of one department."
            yield Violation(path, message, fix)


def _settings(team: Team, path: str) -> Iterator[Violation]:
    """What belongs to a queue is written once, at its owner. Namespaces have LocalQueues of their own."""
    default = Team(name=team.name, namespace=team.namespace)
    keys = [
        each.name
        for each in fields(Allowance)
        if getattr(team.allowance, each.name) != getattr(default.allowance, each.name)
    ]
    keys += [key for key in _OF_A_QUEUE if getattr(team, key) != getattr(default, key)]
    known = QueueOptions(local_queues=team.kueue.local_queues)
    keys += [at("kueue", key) for key in explicit_keys(team.kueue, known)]
    for key in keys:
        message = f"is a setting of the queue, which is {team.queue}'s."
        fix = f"write it at team {team.queue}, or remove `queue: {team.queue}`."
        yield Violation(at(path, key), message, fix)
