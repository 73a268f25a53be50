"""Tenancy: the role of team members, and the policies that keep every tenant within its queue.

Responsible for when they are in force: before the first team exists, and until the last one is gone. What
belongs to one team is in the team's own Bundle (queues.py).
"""

from dataclasses import dataclass
from typing import Final

import pulumi

from muster.components.bundle import Bundle, BundleProvider, text
from muster.components.component import Component
from muster.model.stack import Stack
from muster.render import tenancy

_TYPE: Final = "muster:index:Tenancy"


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
        super().__init__(_TYPE, name, opts)
        self.in_force = Bundle(
            f"{name}-policies",
            manifests={
                "role": text([tenancy.member_role(args.stack)]),
                **{each[0]["metadata"]["name"]: text(each) for each in tenancy.policies(args.stack)},
            },
            opts=self.child_options(provider=args.provider),
        )
        self.register_outputs({})
