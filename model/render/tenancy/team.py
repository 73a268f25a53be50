"""What a team owns besides its queue: its Namespace first, then what stands in it.

Decides the order. A team of a thousand is these objects in its own Bundle, and no policy of its own.
"""

from model import names
from model.queues import Department, Team
from model.render.manifest import Manifest
from model.render.tenancy.accounts import accounts
from model.render.tenancy.limits import limits
from model.render.tenancy.namespaces import namespace
from model.render.tenancy.networks import networks
from model.render.tenancy.volumes import volumes
from model.stack import Stack


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
