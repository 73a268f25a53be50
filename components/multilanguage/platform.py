"""The platform, for programs in any language."""

from typing import Any, NotRequired, TypedDict

import pulumi

from muster.components.clusters.cluster import ClusterInputs
from muster.components.multilanguage.stack import PACKAGE, Stack, read_stack
from muster.components.platform import Platform as PythonPlatform
from muster.components.platform import PlatformArgs as PythonPlatformArgs


class PlatformArgs(TypedDict):
    """A stack, and the values of it that come from other resources."""

    stack: Stack
    """What the platform consists of."""
    kubeconfig: NotRequired[pulumi.Input[str]]
    """Text of a kubeconfig, for a cluster of provider existing. It is kept as a secret."""
    kube_context: NotRequired[pulumi.Input[str]]
    """The context in the kubeconfig. Without it, its current one."""
    controller_image: NotRequired[pulumi.Input[str]]
    """The controller's image, when it comes from a resource. It takes the place of the stack's image."""


class Platform(pulumi.ComponentResource):
    """A cluster with scheduler, KubeRay, GPU Operator, gang admission, tenancy, and all teams' queues."""

    queue_names: pulumi.Output[dict[str, Any]]
    """Team -> the queue that its work names, or one queue a pool. Known when all queues exist."""

    def __init__(self, name: str, args: PlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{PACKAGE}:index:Platform", name, None, opts)
        inner = PythonPlatform(
            name,
            PythonPlatformArgs(
                stack=read_stack(args["stack"]),
                cluster=ClusterInputs(kubeconfig=args.get("kubeconfig"), context=args.get("kube_context")),
                image=args.get("controller_image"),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.queue_names = inner.queue_names.apply(dict)
        self.register_outputs({"queueNames": self.queue_names})
