"""Queues: what a scheduler keeps for all teams, the departments' own queues, and a Bundle for each team.

A team is one resource: its change is one line of a preview, and `--target` rolls it back alone. Its URN holds
neither its department nor the depth of the tree, so a team that moves is updated in place and keeps its
namespace. It does not hold the scheduler either: a stack that switches changes each team in place, and what
the old scheduler kept for all goes after the last of its queues.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pulumi

from muster.components.bundle import Bundle, BundleProvider, text
from muster.model.stack import Scheduler, Stack
from muster.render import kueue, queues
from muster.render.manifest import Manifest


class Department(pulumi.ComponentResource):
    """A heading in the tree of resources; its teams are its children, whatever department it stands in."""

    def __init__(self, name: str, *, opts: pulumi.ResourceOptions) -> None:
        super().__init__("muster:index:Department", name, None, opts)


class Queues(pulumi.ComponentResource):
    """`teams`: team -> its Bundle, after its own of `identities`. All of it is gone before what `depends_on`
    names goes.
    """

    def __init__(
        self,
        name: str,
        *,
        stack: Stack,
        provider: BundleProvider,
        depends_on: list[pulumi.Resource],
        identities: Mapping[str, Sequence[pulumi.Resource]] = MappingProxyType({}),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:index:Queues", name, None, opts)
        self._provider = provider
        tree = queues.by_department(stack)
        own = {department: teams[""] for department, teams in tree.items() if teams[""]}
        if stack.scheduler is Scheduler.KAI:
            self.departments = self._bundle(f"{name}-departments", own, after=depends_on)
        else:
            self.flavors = self._bundle(f"{name}-flavors", _flavors(stack), after=depends_on)
            self.departments = self._bundle(f"{name}-cohorts", own, after=[self.flavors])
        self.teams: dict[str, Bundle] = {}
        for department, teams in tree.items():
            heading = Department(department, opts=pulumi.ResourceOptions(parent=self))
            for team, objects in teams.items():
                if team:
                    after = [self.departments, *identities.get(team, ())]
                    self.teams[team] = self._bundle(team, {team: objects}, after=after, parent=heading)
        self.register_outputs({})

    def _bundle(
        self,
        name: str,
        objects: Mapping[str, list[Manifest]],
        *,
        after: list[pulumi.Resource],
        parent: pulumi.Resource | None = None,
    ) -> Bundle:
        opts = pulumi.ResourceOptions(parent=parent or self, provider=self._provider, depends_on=after)
        return Bundle(name, manifests={key: text(each) for key, each in objects.items()}, opts=opts)


def _flavors(stack: Stack) -> dict[str, list[Manifest]]:
    """What Kueue's queues refer to."""
    found = {
        "flavors": kueue.flavors(stack),
        "topologies": kueue.topologies(stack),
        "admission-checks": kueue.admission_check(stack),
    }
    return {key: objects for key, objects in found.items() if objects}
