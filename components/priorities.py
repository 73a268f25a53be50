"""Priorities: the classes that work names, in the words of the stack's scheduler."""

import pulumi

from muster.components.bundle import Bundle, BundleProvider, immutable, text
from muster.model.stack import Scheduler, Stack
from muster.render import queues
from muster.render.manifest import Manifest


class Priorities(pulumi.ComponentResource):
    """`classes`: made before any queue, since a job that names a priority that does not exist is refused."""

    def __init__(
        self,
        name: str,
        *,
        stack: Stack,
        provider: BundleProvider,
        depends_on: list[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:index:Priorities", name, None, opts)
        classes = {each["metadata"]["name"]: each for each in queues.priority_classes(stack)}
        opts = pulumi.ResourceOptions(parent=self, provider=provider, depends_on=depends_on)
        self.classes: list[pulumi.Resource] = (
            _replaceable(name, classes, opts)
            if stack.scheduler is Scheduler.KAI
            else [Bundle(f"{name}-classes", manifests=_texts(classes), opts=opts)]
        )
        self.register_outputs({})


def _replaceable(
    name: str, classes: dict[str, Manifest], opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """The value of a Kubernetes PriorityClass can never change, so another value is another object. Work that
    runs keeps the priority that it was given.
    """
    return [
        Bundle(f"{name}-{each}", manifests=_texts({each: body}), opts=immutable(opts))
        for each, body in classes.items()
    ]


def _texts(classes: dict[str, Manifest]) -> dict[str, str]:
    return {each: text([body]) for each, body in classes.items()}
