"""Queues: what a scheduler keeps for all teams, the departments' own queues, and a Bundle for each team.

A team is one resource: its change is one line of a preview, and `--target` rolls it back alone. Its URN holds
neither its department nor the depth of the tree, so a team that moves is updated in place and keeps its
namespace. It does not hold the scheduler either: a stack that switches changes each team in place, and what
the old scheduler kept for all goes after the last of its queues.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import pulumi

from muster.components.bundle import Bundle, BundleProvider, immutable, text
from muster.components.component import Component
from muster.components.schedulers import ROOMS
from muster.model.stack import Stack
from muster.render import queues, tenancy
from muster.render.manifest import Manifest

# Priorities: the priority classes that work names, in the kind of the stack's scheduler.

_PRIORITIES_TYPE: Final = "muster:index:Priorities"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrioritiesArgs:
    """`stack`: its `priorities` and its scheduler. Taking a priority out refuses new work that names it; work
    that runs keeps the value that it was given.

    `provider`: the cluster that gets the classes. With Kueue, its CRDs have to be served: name what installs
    Kueue in `opts.depends_on`.
    """

    stack: Stack
    provider: BundleProvider


class Priorities(Component):
    """`classes`: make them before any queue, since a job that names a missing priority is refused."""

    def __init__(self, name: str, args: PrioritiesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(_PRIORITIES_TYPE, name, opts)
        classes = {each["metadata"]["name"]: each for each in queues.priority_classes(args.stack)}
        child = self.child_options(provider=args.provider)
        self.classes: list[pulumi.Resource] = (
            _replaceable(name, classes, child)
            if any(each["kind"] == "PriorityClass" for each in classes.values())
            else [Bundle(f"{name}-classes", manifests=_texts(classes), opts=child)]
        )
        self.register_outputs({})


def _replaceable(
    name: str, classes: dict[str, Manifest], opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """The value of a Kubernetes PriorityClass is immutable, so another value is another object. Running work
    keeps the priority that it was given.
    """
    return [
        Bundle(f"{name}-{each}", manifests=_texts({each: body}), opts=immutable(opts))
        for each, body in classes.items()
    ]


def _texts(classes: dict[str, Manifest]) -> dict[str, str]:
    return {each: text([body]) for each, body in classes.items()}


# Tenancy: the role of team members, and the policies that keep every tenant within its queue.
# What belongs to one team is in the team's own Bundle.

_TENANCY_TYPE: Final = "muster:index:Tenancy"


@dataclass(frozen=True, slots=True, kw_only=True)
class TenancyArgs:
    """`stack`: its `tenancy` section. With `mode: off` nothing keeps a team from using another team's queue.

    `provider`: the cluster that gets the role and the ValidatingAdmissionPolicies. They are cluster-wide and
    their names are fixed: a cluster holds them once.
    """

    stack: Stack
    provider: BundleProvider


class Tenancy(Component):
    """`in_force`: depend on it before you make anything of a team."""

    def __init__(self, name: str, args: TenancyArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(_TENANCY_TYPE, name, opts)
        self.in_force = Bundle(
            f"{name}-policies",
            manifests={
                "role": text([tenancy.member_role(args.stack)]),
                **{each[0]["metadata"]["name"]: text(each) for each in tenancy.policies(args.stack)},
            },
            opts=self.child_options(provider=args.provider),
        )
        self.register_outputs({})


_TYPE: Final = "muster:index:Queues"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesArgs:
    """`stack`: departments, teams, pools and scheduler. A team that is taken out of it loses its queues and
    its namespace, with everything in it.

    `provider`: the cluster that gets the queues. Its scheduler (Kueue or KAI), the namespace policies and the
    priority classes have to be there first: name what installs them in `opts.depends_on`.

    `identities`: team -> what has to exist before the team's pods run, such as its cloud identity. A team's
    objects are made after its own entries and deleted before them.

    `dry_runs`: team -> an object that the API server has to accept in a dry run before the team's Bundle is
    done. It is never created; a change of it alone updates nothing. The platform gives each team a RayJob, so
    that `pulumi up` ends when the team can submit.
    """

    stack: Stack
    provider: BundleProvider
    identities: Mapping[str, Sequence[pulumi.Resource]] = field(default_factory=lambda: MappingProxyType({}))
    dry_runs: Mapping[str, Manifest] = field(default_factory=lambda: MappingProxyType({}))


class Department(pulumi.ComponentResource):
    """A heading in the tree of resources. Its teams are its children, whatever department they move to."""

    def __init__(self, name: str, *, opts: pulumi.ResourceOptions) -> None:
        super().__init__("muster:index:Department", name, None, opts)


class Queues(Component):
    """All queues of a stack.

    `teams` maps each team to its Bundle. Name this component, or one team's Bundle, in `depends_on` of your
    own objects: they are made when the queues accept work, and deleted before the queues.

    Output: `queueNames` maps each team to the queue that its work names, or to one queue a pool. It is known
    when all queues exist.
    """

    queue_names: pulumi.Output[Mapping[str, str | Mapping[str, str]]]

    def __init__(self, name: str, args: QueuesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(_TYPE, name, opts, short_name="queues")
        self._provider, stack = args.provider, args.stack
        tree = queues.by_department(stack)
        own = {department: teams[""] for department, teams in tree.items() if teams[""]}
        room = ROOMS[stack.scheduler]
        shared = room.shared_objects(stack)
        before = None if shared is None else [self._bundle(f"{name}-flavors", shared)]
        self.departments = self._bundle(f"{name}-{room.departments()}", own, after=before)
        guests = {team.name: team.queue for _, team in stack.teams() if team.queue is not None}
        self.teams: dict[str, Bundle] = {}
        for department, teams in tree.items():
            heading = Department(self.child_name(department), opts=pulumi.ResourceOptions(parent=self))
            # A queue waits for all work in it to go, so that its teams go before its owner does.
            for team, objects in sorted(teams.items(), key=lambda each: each[0] in guests):
                if team:
                    owner = [self.teams[guests[team]]] if team in guests else []
                    after = [self.departments, *owner, *args.identities.get(team, ())]
                    checked = {team: [args.dry_runs[team]]} if team in args.dry_runs else {}
                    self.teams[team] = self._bundle(
                        self.child_name(team), {team: objects}, dry_runs=checked, after=after, parent=heading
                    )
        made = pulumi.Output.all(*(bundle.urn for bundle in self.teams.values()))
        names = queues.names_by_team(stack)
        self.queue_names = made.apply(lambda _: names)
        self.register_outputs({"queueNames": self.queue_names})

    def _bundle(
        self,
        name: str,
        objects: Mapping[str, list[Manifest]],
        *,
        dry_runs: Mapping[str, list[Manifest]] = MappingProxyType({}),
        after: Sequence[pulumi.Resource] | None = None,
        parent: pulumi.Resource | None = None,
    ) -> Bundle:
        opts = self.child_options(provider=self._provider, after=after)
        if parent is not None:
            opts.parent = parent
        return Bundle(
            name,
            manifests={key: text(each) for key, each in objects.items()},
            dry_runs={key: text(each) for key, each in dry_runs.items()},
            opts=opts,
        )
