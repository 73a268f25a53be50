"""Starts the plugin `muster-components` with the Pulumi SDK's own component provider host."""

import sys
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi.provider import ConstructResult
from pulumi.provider import main as serve
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError

from muster.components.bundle import BundleProvider
from muster.components.clusters.cluster import ClusterInputs
from muster.components.multilanguage.stack import PACKAGE, Stack, read_stack
from muster.components.platform import Platform as PythonPlatform
from muster.components.platform import PlatformArgs as PythonPlatformArgs
from muster.components.queues import Priorities, PrioritiesArgs
from muster.components.queues import Queues as PythonQueues
from muster.components.queues import QueuesArgs as PythonQueuesArgs
from muster.distribution import version

# The queues alone, for programs in any language: into a cluster that has its scheduler already.


class QueuesArgs(TypedDict):
    """A stack, and how the cluster that gets its queues is reached."""

    stack: Stack
    """Its priorities, pools, departments and teams are used; nothing is installed."""
    kubeconfig: pulumi.Input[str]
    """Text of a kubeconfig. It is kept as a secret. Another cluster behind it replaces all queues."""
    kube_context: pulumi.Input[str]
    """The context in the kubeconfig."""


class Queues(pulumi.ComponentResource):
    """Priorities and queues of every team. The cluster's scheduler has to be installed already."""

    queue_names: pulumi.Output[dict[str, Any]]
    """Team -> the queue that its work names, or one queue a pool. Known when all queues exist."""

    def __init__(self, name: str, args: QueuesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{PACKAGE}:index:Queues", name, None, opts)
        stack = read_stack(args["stack"])
        provider = BundleProvider(
            f"{name}-bundles",
            kubeconfig=pulumi.Output.secret(args["kubeconfig"]),
            context=args["kube_context"],
            opts=pulumi.ResourceOptions(parent=self),
        )
        priorities = Priorities(
            f"{name}-priorities",
            PrioritiesArgs(stack=stack, provider=provider),
            opts=pulumi.ResourceOptions(parent=self),
        )
        inner = PythonQueues(
            name,
            PythonQueuesArgs(stack=stack, provider=provider),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*priorities.classes]),
        )
        self.queue_names = inner.queue_names.apply(dict)
        self.register_outputs({"queueNames": self.queue_names})


# The platform, for programs in any language.


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


class Provider(ComponentProvider):
    """The SDK's provider of our components.

    The SDK treats every error of a constructor as a defect of the component and adds a traceback. A refused
    property goes to the program as such: the engine prints its path and the reason.
    """

    def __init__(self) -> None:
        super().__init__([Platform, Queues], PACKAGE, None, version())

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: pulumi.Inputs,
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        try:
            return super().construct(name, resource_type, inputs, options)
        except ComponentInitError as problem:
            if isinstance(problem.inner, pulumi.InputPropertiesError):
                raise problem.inner from None
            raise


def main() -> None:
    """Serve the engine until it closes the plugin. The engine's address is the first argument."""
    serve(Provider(), sys.argv[1:])


if __name__ == "__main__":
    main()
