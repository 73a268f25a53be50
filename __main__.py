"""The program: read the stack's description, then refuse it with all its mistakes or make what it says."""

import os
import sys
from pathlib import Path

import pulumi
from pulumi.runtime.config import CONFIG

import stackconfig
from components.clusters.existing import MissingContext
from components.guard import guard
from components.image_repository import STEP, STEP_VARIABLE, image_repository
from components.origin import tell_origins
from components.platform import Platform
from model.promises import gang_promise
from stackconfig import artifacts, upstream

_OURS = "muster:"


def main() -> None:
    name = pulumi.get_stack()
    source = Path("stacks") / f"Pulumi.{name}.yaml"
    values = {key: value for key, value in CONFIG.get().items() if key.startswith(_OURS)}
    stack = stackconfig.parse(values, source=source)
    is_step = os.environ.get(STEP_VARIABLE) == STEP  # `make image push` makes the repository alone
    found = None if is_step else upstream.of(stack, name=name)
    if (repository := image_repository(stack.cluster)) is not None:
        pulumi.export("imageRepository", repository.url)
    if found is None:
        return
    tell_origins(stack, source)
    platform = Platform("muster", stack=stack, artifacts=found)
    guard(stack.cluster, platform, repository)
    pulumi.export("queueNames", platform.queue_names)
    pulumi.export("cluster", platform.cluster.outputs)
    pulumi.export("gangs", gang_promise(stack))


try:
    main()
except (stackconfig.ConfigError, artifacts.ArtifactError, MissingContext) as error:
    # One message, not a stack trace: it is the description that is wrong, not the program.
    pulumi.log.error(str(error))
    sys.exit(1)
