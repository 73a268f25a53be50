"""One run of the program: what it makes, and the outputs of the stack.

Responsible for what comes before and after the platform, and for the names of the outputs, which others build
on: outputs.py describes each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pulumi

from muster.artifacts.resolved import Artifacts
from muster.components.context import log_source_lines
from muster.components.gang_admission import image_repository
from muster.components.platform import Platform, PlatformArgs
from muster.model.clusters import Cluster
from muster.model.stack import Stack
from muster.model.waiting import gang_promise

# Makes `pulumi destroy` of a protected stack refuse before it has deleted anything.
# The engine refuses resource by resource: with a protected cluster alone, it deletes the queues, the
# schedulers and every pool that is not protected, and stops at the cluster. What depends on everything is
# deleted first, so one protected resource there stops it at the first step.

# The engine's message holds the resource's name and its own advice, which is about the program.
STEP: Final = "set muster:cluster.protect to false and run pulumi up"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionGuardArgs:
    """`protected`: what `pulumi destroy` must not touch. A component includes all of its children.

    `protect`: while True, `pulumi destroy` of the stack is refused as a whole. With False it deletes
    everything.
    """

    protected: Sequence[pulumi.Resource]
    protect: bool


class DeletionGuard(pulumi.ComponentResource):
    """`name` is what the engine prints when it refuses: name the step that allows the deletion."""

    def __init__(
        self, name: str, args: DeletionGuardArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        own = pulumi.ResourceOptions(protect=args.protect, depends_on=list(args.protected))
        super().__init__("muster:index:Guard", name, None, pulumi.ResourceOptions.merge(opts, own))
        self.register_outputs({})


def deletion_guard(cluster: Cluster, *protected: pulumi.Resource | None) -> DeletionGuard | None:
    """None for a cluster that Muster did not make: nothing in it is protected."""
    if not cluster.is_ours:
        return None
    args = DeletionGuardArgs(
        protected=[each for each in protected if each is not None], protect=cluster.protect
    )
    return DeletionGuard(STEP, args)


def make(stack: Stack, *, artifacts: Artifacts | None, source: Path) -> Mapping[str, pulumi.Input[object]]:
    """Make what the stack describes and return its outputs by name. Without artifacts there is nothing to
    install: only the repository for our image is made.
    """
    outputs: dict[str, pulumi.Input[object]] = {}
    if (repository := image_repository(stack.cluster)) is not None:
        outputs["imageRepository"] = repository.url
    if artifacts is None:
        return outputs
    log_source_lines(stack, source)
    platform = Platform("muster", PlatformArgs(stack=stack, artifacts=artifacts))
    deletion_guard(stack.cluster, platform, repository)
    return {
        **outputs,
        "cluster": platform.cluster.outputs,
        "queueNames": platform.queue_names,
        "teams": platform.teams,
        "gangs": gang_promise(stack),
    }
