"""What shows how Muster is doing: monitors, alerts, a dashboard. All of it only where the stack asks for it.

The metrics themselves are served by the controller in any case; who may reach them stands beside its pods
(gang_admission.py).
"""

import pulumi

from muster.components import gang_pods as pods
from muster.components.bundle import Bundle, BundleProvider, text
from muster.model.stack import Stack
from muster.render import observability


class Observability(pulumi.ComponentResource):
    """`objects` is None where the stack wants nothing of it. The kinds of monitors and alerts are the
    Prometheus operator's or Google's, and have to be there.
    """

    def __init__(
        self,
        name: str,
        *,
        stack: Stack,
        provider: BundleProvider,
        depends_on: list[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:index:Observability", name, None, opts)
        wanted = observability.objects(stack, selector=pods.BOTH, port=pods.HEALTH_PORT_NAME)
        self.objects = (
            Bundle(
                name,
                manifests={key: text(manifests) for key, manifests in wanted.items()},
                opts=pulumi.ResourceOptions(parent=self, provider=provider, depends_on=depends_on),
            )
            if wanted
            else None
        )
        self.register_outputs({})
