"""Priorities: the priority classes that work names, in the kind of the stack's scheduler."""

from dataclasses import dataclass
from typing import Final

import pulumi

from muster.components.bundle import Bundle, BundleProvider, immutable, text
from muster.components.component import Component
from muster.model.stack import Scheduler, Stack
from muster.render import queues
from muster.render.manifest import Manifest

_TYPE: Final = "muster:index:Priorities"


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
        super().__init__(_TYPE, name, opts)
        classes = {each["metadata"]["name"]: each for each in queues.priority_classes(args.stack)}
        child = self.child_options(provider=args.provider)
        self.classes: list[pulumi.Resource] = (
            _replaceable(name, classes, child)
            if args.stack.scheduler is Scheduler.KAI
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
