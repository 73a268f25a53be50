"""One run of the program: what it makes, and the outputs of the stack.

Responsible for what comes before and after the platform, and for the names of the outputs, which others build
on: outputs.py describes each. Not responsible for reading the description or refusing it
(entrypoint.py).
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
