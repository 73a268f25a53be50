"""Monitors, alerts and a dashboard for Muster itself, where the stack asks for them.

The controller serves its metrics in any case; which pods may reach them is set beside its own pods
(gang_admission.py).
"""

from dataclasses import dataclass
from typing import Final

import pulumi

from muster.components import gang_pods as pods
from muster.components.bundle import Bundle, BundleProvider, text
from muster.components.component import Component
from muster.model.stack import Stack
from muster.render import observability

_TYPE: Final = "muster:index:Observability"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservabilityArgs:
    """`stack`: its `observability` section. The kinds of monitors and alerts are the Prometheus operator's or
    Google's: without them in the cluster, `up` fails.

    `provider`: the cluster that gets the objects. They are made in Muster's own namespace: name what makes
    that (`GangAdmission.namespace`) in `opts.depends_on`.
    """

    stack: Stack
    provider: BundleProvider


class Observability(Component):
    """`objects` is None where the stack asks for no monitors, alerts or dashboard."""

    def __init__(
        self, name: str, args: ObservabilityArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(_TYPE, name, opts)
        wanted = observability.objects(args.stack, selector=pods.BOTH, port=pods.HEALTH_PORT_NAME)
        self.objects = (
            Bundle(
                name,
                manifests={key: text(manifests) for key, manifests in wanted.items()},
                opts=self.child_options(provider=args.provider),
            )
            if wanted
            else None
        )
        self.register_outputs({})
