"""Queues: the pools' flavors, the admission checks, the departments' Cohorts, and a Bundle for each team.

A team is one resource: its change is one line of a preview, and `--target` rolls it back alone. Its URN holds
neither its department nor the depth of the tree, so a team that moves is updated in place and keeps its
namespace.
"""

import pulumi

from components.bundle import Bundle, BundleProvider, text
from model.render import kueue
from model.stack import Stack


class Department(pulumi.ComponentResource):
    """A heading in the tree of resources; its teams are its children, whatever department it stands in."""

    def __init__(self, name: str, *, opts: pulumi.ResourceOptions) -> None:
        super().__init__("muster:index:Department", name, None, opts)


class Queues(pulumi.ComponentResource):
    """`teams`: team -> its Bundle. All of it is gone before what `depends_on` names goes."""

    def __init__(
        self,
        name: str,
        *,
        stack: Stack,
        provider: BundleProvider,
        depends_on: list[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:index:Queues", name, None, opts)
        flavors = {"flavors": text(kueue.flavors(stack))}
        topologies = kueue.topologies(stack)
        if topologies:
            flavors["topologies"] = text(topologies)
        checks = kueue.admission_check(stack)
        if checks:
            flavors["admission-checks"] = text(checks)
        self.flavors = Bundle(
            f"{name}-flavors",
            manifests=flavors,
            opts=pulumi.ResourceOptions(parent=self, provider=provider, depends_on=depends_on),
        )
        tree = kueue.by_department(stack)
        self.cohorts = Bundle(
            f"{name}-cohorts",
            manifests={department: text(teams[""]) for department, teams in tree.items() if teams[""]},
            opts=pulumi.ResourceOptions(parent=self, provider=provider, depends_on=[self.flavors]),
        )
        self.teams: dict[str, Bundle] = {}
        for department, teams in tree.items():
            heading = Department(department, opts=pulumi.ResourceOptions(parent=self))
            for team, objects in teams.items():
                if team:
                    self.teams[team] = Bundle(
                        team,
                        manifests={team: text(objects)},
                        opts=pulumi.ResourceOptions(
                            parent=heading, provider=provider, depends_on=[self.cohorts]
                        ),
                    )
        self.register_outputs({})
