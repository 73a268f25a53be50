"""Tenancy: the role of members and the policies that hold every tenant to his queue.

Decides when they are in force: before the first team is there, and until the last one is gone. What is one
team's is in the team's own Bundle (queues.py).
"""

import pulumi

from muster.components.bundle import Bundle, BundleProvider, text
from muster.model.stack import Stack
from muster.render import tenancy


class Tenancy(pulumi.ComponentResource):
    """`in_force`: depend on it before anything of a team is made."""

    def __init__(
        self,
        name: str,
        *,
        stack: Stack,
        provider: BundleProvider,
        depends_on: list[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:index:Tenancy", name, None, opts)
        self.in_force = Bundle(
            f"{name}-policies",
            manifests={
                "role": text([tenancy.member_role(stack)]),
                **{each[0]["metadata"]["name"]: text(each) for each in tenancy.policies(stack)},
            },
            opts=pulumi.ResourceOptions(parent=self, provider=provider, depends_on=depends_on),
        )
        self.register_outputs({})
