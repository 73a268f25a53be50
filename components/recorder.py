"""Records the cluster's jobs into a volume, where the stack asks for it (`muster:recording`).

The volume outlives the recorder: a stack that switches recording off, and on again, goes on with the same
recording. A stack with `ephemeral: true` has no such volume.
"""

from dataclasses import dataclass

import pulumi

from muster.components.bundle import Bundle, text
from muster.components.component import Component
from muster.components.context import KubernetesObject, PlatformContext, child
from muster.render import recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderArgs:
    """`context`: the cluster, and the stack whose `recording` section is carried out. `image`: of the
    controller, as for GangAdmission, with the player in it for a recorder that forecasts. GangAdmission's
    namespace and priority have to be there: name both in `opts.depends_on`, and the scheduler, whose jobs are
    read.
    """

    context: PlatformContext
    image: pulumi.Input[str] | None = None


class Recorder(Component):
    """`deployment` is rolled out when the recorder has its volume and reads the cluster."""

    def __init__(self, name: str, args: RecorderArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("muster:index:Recorder", name, opts, short_name="recorder")
        context = args.context
        name_of_image = "recorder" if context.stack.recording.forecasts else "gang-admission"
        image = context.artifacts.image(name_of_image) if args.image is None else args.image
        *around, deployment = recorder.objects(
            context.stack,
            image=image,
            node_selector=context.sizing.node_selector(),
        )
        before: list[pulumi.Resource] = [child(self, body, provider=context.provider) for body in around]
        if not context.stack.recording.ephemeral:
            before.append(self._volume(name, context))
        self.deployment: KubernetesObject = child(self, deployment, provider=context.provider, after=before)
        self.register_outputs({})

    def _volume(self, name: str, context: PlatformContext) -> Bundle:
        """A Bundle applies what may be there already. The Kubernetes provider would refuse to create a volume
        that an earlier recorder has left.
        """
        kept = pulumi.ResourceOptions(retain_on_delete=True)
        return Bundle(
            f"{name}-volume",
            manifests={recorder.NAME: text([recorder.volume(context.stack.recording)])},
            opts=pulumi.ResourceOptions.merge(self.child_options(provider=context.bundles), kept),
        )
