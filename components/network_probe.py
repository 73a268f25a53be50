"""Tries once, with two pods, whether the cluster's network enforces NetworkPolicies.

The Job is done when the policy was seen to be enforced, and fails otherwise: `pulumi up` waits for it, and
ends there. It stays as the record of it, without a pod that runs; another image makes it anew.
"""

from dataclasses import dataclass

import pulumi

from muster.components.component import Component
from muster.components.context import PlatformContext
from muster.components.objects import KubernetesObject, child
from muster.render import network_probe


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkProbeArgs:
    """`context`: the cluster to try. `image`: of the controller, as for GangAdmission, whose namespace has to
    be there: name it in `opts.depends_on`.
    """

    context: PlatformContext
    image: pulumi.Input[str] | None = None


class NetworkProbe(Component):
    """`passed`: depend on it and the network enforces NetworkPolicies."""

    def __init__(self, name: str, args: NetworkProbeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("muster:index:NetworkProbe", name, opts)
        context = args.context
        image = context.artifacts.image("gang-admission") if args.image is None else args.image
        *around, job = network_probe.objects(image=image, node_selector=context.sizing.node_selector())
        before = [child(self, body, provider=context.provider) for body in around]
        self.passed: KubernetesObject = child(self, job, provider=context.provider, after=before)
        self.register_outputs({})
