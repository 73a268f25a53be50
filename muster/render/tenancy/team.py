"""The objects of a team besides its queue: its Namespace first, then the objects in it.

Responsible for their order. Each team has these objects in its own Bundle, and no policy of its own.
"""

from muster.model import names
from muster.model.queues import Department, Team
from muster.model.stack import Stack
from muster.render.manifest import Manifest
from muster.render.tenancy.accounts import accounts
from muster.render.tenancy.limits import limits
from muster.render.tenancy.namespaces import namespace
from muster.render.tenancy.networks import networks
from muster.render.tenancy.volumes import volumes


def team_objects(
    stack: Stack, department: Department, team: Team, *, queues: tuple[str, ...]
) -> list[Manifest]:
    """Everything of one team that no scheduler knows, in the order in which it can be created.

    `queues` are the words by which the team's work may name its queue: LocalQueues of Kueue's, leaf Queues of
    KAI's.
    """
    labels = {names.TEAM_LABEL: team.name, names.DEPARTMENT_LABEL: department.name}
    return [
        namespace(stack, team, labels, queues=queues),
        *limits(stack, team, labels),
        *networks(stack, team, labels),
        *accounts(stack, team, labels),
        *volumes(team, labels),
    ]
