"""The program: read the stack's description, then refuse it with all its mistakes or make what it says."""

import sys
from pathlib import Path

import pulumi
from pulumi.runtime.config import CONFIG

from muster.components import interrupts

_OURS = "muster:"


def main() -> None:
    # Imported after interrupts are seen to: it takes seconds.
    from muster import config
    from muster.artifacts import resolved, upstream
    from muster.components.clusters.existing import MissingContext
    from muster.components.image_repository import is_step
    from muster.components.program import make

    name = pulumi.get_stack()
    source = Path("stacks") / f"Pulumi.{name}.yaml"
    values = {key: value for key, value in CONFIG.get().items() if key.startswith(_OURS)}
    try:
        stack = config.parse(values, source=source)
        found = None if is_step() else upstream.resolve_artifacts(stack, name=name)
        for output, value in make(stack, artifacts=found, source=source).items():
            pulumi.export(output, value)
    except (config.ConfigError, resolved.ArtifactError, MissingContext) as error:
        # One message, not a stack trace: it is the description that is wrong, not the program.
        pulumi.log.error(str(error))
        sys.exit(1)


interrupts.go_quietly()
main()
