"""The queues alone, for programs in any language: into a cluster that has its scheduler already."""

from typing import Any, TypedDict

import pulumi

from muster.components.bundle import BundleProvider
from muster.components.multilanguage.stack import PACKAGE, Stack, read_stack
from muster.components.priorities import Priorities, PrioritiesArgs
from muster.components.queues import Queues as PythonQueues
from muster.components.queues import QueuesArgs as PythonQueuesArgs


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
