"""The objects of a team besides its queue: its Namespace first, then the objects in it.

Responsible for their order. Each team has these objects in its own Bundle, and no policy of its own.
"""

from collections.abc import Mapping
from dataclasses import replace

from muster.model import names
from muster.model.queues import Department, Team
from muster.model.stack import Stack
from muster.render.manifest import Manifest
from muster.render.tenancy.accounts import accounts
from muster.render.tenancy.disruption import disruption
from muster.render.tenancy.limits import limits
from muster.render.tenancy.namespaces import namespace
from muster.render.tenancy.networks import networks
from muster.render.tenancy.volumes import volumes


def team_objects(
    stack: Stack, department: Department, team: Team, *, queues: tuple[str, ...]
) -> list[Manifest]:
    """The objects of one team without its queue, in the order in which they can be created.

    `queues` are the names by which the team's work may name its queue: LocalQueues with Kueue, leaf Queues
    with KAI.
    """
    labels = {names.TEAM_LABEL: team.name, names.DEPARTMENT_LABEL: department.name}
    return [
        *(
            item
            for name in team.namespaces
            for item in _in_namespace(stack, replace(team, namespace=name), labels, queues)
        ),
        *volumes(team, labels),
    ]


def _in_namespace(
    stack: Stack, team: Team, labels: Mapping[str, str], queues: tuple[str, ...]
) -> list[Manifest]:
    return [
        namespace(stack, team, labels, queues=queues),
        *limits(stack, team, labels),
        *networks(stack, team, labels),
        *disruption(stack, team, labels),
        *accounts(stack, team, labels),
    ]
