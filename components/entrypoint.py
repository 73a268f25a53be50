"""The program of a project: reads the description of the stack, then makes what it describes or refuses it.

Here is where the description comes from, how one that cannot be used is reported, what comes before and after
the platform, and the names of the stack's outputs, which others build on: outputs.py describes each.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pulumi
from pulumi.runtime.config import CONFIG

from muster.artifacts.resolved import Artifacts
from muster.components import outputs
from muster.components.context import log_source_lines
from muster.components.gang_admission import image_repository
from muster.components.platform import Platform, PlatformArgs
from muster.model.clusters import Cluster, ExistingCluster
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
    if isinstance(cluster, ExistingCluster):
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


_PREFIX: Final = "muster:"


def run() -> None:
    """Make the stack that the engine runs. Exits with 1 when its description cannot be used."""
    outputs.go_quietly()
    # Imported once Ctrl-C is handled: it takes seconds.
    from muster import config
    from muster.artifacts import resolved, upstream
    from muster.components.gang_admission import is_step
    from muster.kubernetes.kubeconfig import KubeconfigError

    name = pulumi.get_stack()
    source = Path("stacks") / f"Pulumi.{name}.yaml"
    values = {key: value for key, value in CONFIG.get().items() if key.startswith(_PREFIX)}
    try:
        stack = config.parse(values, source=source)
        found = None if is_step() else upstream.resolve_artifacts(stack, name=name)
        for output, value in make(stack, artifacts=found, source=source).items():
            pulumi.export(output, value)
    except (config.ConfigError, resolved.ArtifactError, KubeconfigError) as error:
        # One message, no traceback: the description is wrong, not the program.
        pulumi.log.error(str(error))
        sys.exit(1)
