"""Starts the plugin `muster-components` with the Pulumi SDK's own component provider host.

What a program in another language says of a stack are the sections of a stack file, as properties, which both
components share. They are read as a stack file is read, with every violation and its fix. The schema is
inferred from the annotations of the classes here: no forward references.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict

import pulumi
from pulumi.provider import ConstructResult
from pulumi.provider import main as serve
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError

from muster import config
from muster.components.bundle import BundleProvider
from muster.components.clusters.cluster import ClusterInputs
from muster.components.platform import Platform as PythonPlatform
from muster.components.platform import PlatformArgs as PythonPlatformArgs
from muster.components.queues import Priorities, PrioritiesArgs
from muster.components.queues import Queues as PythonQueues
from muster.components.queues import QueuesArgs as PythonQueuesArgs
from muster.distribution import version
from muster.model.keys import camel_case
from muster.model.stack import Stack as Described
from muster.model.violations import Violation

PACKAGE: Final = "muster-components"


class Stack(TypedDict):
    """The sections of a stack file, under the same names and with the same rules."""

    cluster: dict[str, Any]
    """The cluster: provider (gke, eks, existing), name, and what the provider needs."""
    pools: dict[str, Any]
    """Pools of equal nodes by name. A pool that is taken out is deleted with its nodes."""
    departments: dict[str, Any]
    """The queue tree: departments with teams and quotas. A team that is taken out loses its namespace."""
    priorities: NotRequired[dict[str, Any]]
    """Priorities of work by name. A greater number may preempt a smaller one."""
    scheduler: NotRequired[str]
    """Which scheduler queues and admits: kueue (the default) or kai."""
    kai: NotRequired[dict[str, Any]]
    """Settings of the KAI Scheduler."""
    gang_admission: NotRequired[dict[str, Any]]
    """How gangs get their capacity: mode, timeouts, retry."""
    pods_ready: NotRequired[dict[str, Any]]
    """What happens to admitted work whose pods do not become ready."""
    kueue: NotRequired[dict[str, Any]]
    """Kueue's own settings."""
    kuberay: NotRequired[dict[str, Any]]
    """Whether KubeRay is installed. With install false the cluster has to have one that Muster supports."""
    gpu_operator: NotRequired[dict[str, Any]]
    """Whether the GPU Operator is installed. With install false the cluster has to have one that works."""
    tenancy: NotRequired[dict[str, Any]]
    """What teams may do. With mode off nothing keeps a team from using another team's queue."""
    artifacts: NotRequired[str]
    """Where charts and images come from: upstream (the default) or local."""
    versions: NotRequired[dict[str, Any]]
    """Versions of kueue, kai, kuberay and gpuOperator (chart and images); kubernetes is the cluster's."""
    charts: NotRequired[dict[str, Any]]
    """Where charts come from: a mirror or a folder, and their digests."""
    image: NotRequired[str]
    """The controller's image by digest. Another one rolls its pods; no gang loses its capacity."""
    images: NotRequired[dict[str, Any]]
    """Other images: a mirror, or a reference by digest for one of them."""
    observability: NotRequired[dict[str, Any]]
    """Monitors, alerts, dashboard and traces of Muster itself."""
    recording: NotRequired[dict[str, Any]]
    """A recorder of the cluster's jobs, and its volume."""
    budgets: NotRequired[dict[str, Any]]
    """GPU-hours a month by team. At its end nothing more of the team starts until the next month."""
    ray: NotRequired[dict[str, Any]]
    """What Ray clusters have to be."""
    work: NotRequired[list[str]]
    """The kinds of work that teams may submit, such as ray, job and jobset."""


def read_stack(args: Stack) -> Described:
    """The stack that the properties describe. InputPropertiesError lists everything that is wrong with it."""
    given: Mapping[str, Any] = args
    named = {camel_case(name): given.get(name) for name in Stack.__annotations__}
    values = {key: _plain(value, key) for key, value in named.items() if value is not None}
    try:
        return config.parse(values, source=Path(f"{pulumi.get_stack()} ({PACKAGE})"))
    except config.ConfigError as error:
        raise _refused(error.violations) from None


def _refused(violations: Sequence[Violation]) -> pulumi.InputPropertiesError:
    """The error by which the engine names each property, as the program wrote it."""
    return pulumi.InputPropertiesError(
        "The stack cannot be used.",
        [
            {
                "property_path": f"stack.{each.path.removeprefix('muster:')}",
                "reason": f"{each.message} Fix: {each.fix}",
            }
            for each in violations
        ],
    )


def _plain(value: Any, path: str) -> Any:
    """The value as a stack file has it: the engine's numbers are floating."""
    match value:
        case pulumi.Output():
            message = (
                "comes from another resource or is secret. The stack decides which resources exist, so it "
                "has to be plain and known before any resource is made."
            )
            fix = "write the value itself; kubeconfig and controllerImage may come from a resource."
            raise _refused([Violation(path, message, fix)])
        case dict():
            return {str(key): _plain(each, f"{path}.{key}") for key, each in value.items()}
        case list():
            return [_plain(each, f"{path}[{index}]") for index, each in enumerate(value)]
        case float() if value.is_integer():
            return int(value)
    return value


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
