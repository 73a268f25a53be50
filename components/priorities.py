"""Priorities: the WorkloadPriorityClasses of the stack."""

import pulumi

from components.bundle import Bundle, BundleProvider, text
from model.render import kueue
from model.stack import Stack


class Priorities(pulumi.ComponentResource):
    """Made before any queue: a job that names a priority that does not exist is refused."""

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
        self.classes = Bundle(
            f"{name}-classes",
            manifests={each["metadata"]["name"]: text([each]) for each in kueue.priority_classes(stack)},
            opts=pulumi.ResourceOptions(parent=self, provider=provider, depends_on=depends_on),
        )
        self.register_outputs({})
