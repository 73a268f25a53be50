"""One run of the program: what it makes, and what the stack tells the outside.

Decides what comes before the platform and after it, and the names of the outputs, which others build on:
docs/outputs.md describes each. Leaves reading the description and refusing it to the caller.
"""

from collections.abc import Mapping
from pathlib import Path

import pulumi

from muster.artifacts.resolved import Artifacts
from muster.components.deletion_guard import deletion_guard
from muster.components.image_repository import image_repository
from muster.components.platform import Platform, PlatformArgs
from muster.components.source_hints import log_source_lines
from muster.model.promises import gang_promise
from muster.model.stack import Stack


def make(stack: Stack, *, artifacts: Artifacts | None, source: Path) -> Mapping[str, pulumi.Input[object]]:
    """Makes what the stack describes and returns its outputs by name. Without artifacts there is nothing to
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
