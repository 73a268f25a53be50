"""The program of a project: reads the description of the stack, then makes what it describes or refuses it.

Responsible for: where the description comes from, the outputs of the stack, and how a description that cannot
be used is reported.
"""

import gc
import sys
from pathlib import Path
from typing import Final

import pulumi
from pulumi.runtime.config import CONFIG

from muster.components import interrupts

_PREFIX: Final = "muster:"


def run() -> None:
    """Make the stack that the engine runs. Exits with 1 when its description cannot be used."""
    interrupts.go_quietly()
    _go_quickly()
    # Imported once Ctrl-C is handled: it takes seconds.
    from muster import config
    from muster.artifacts import resolved
    from muster.components.gang_admission import is_step
    from muster.components.program import make
    from muster.kubernetes.kubeconfig import KubeconfigError

    name = pulumi.get_stack()
    source = Path("stacks") / f"Pulumi.{name}.yaml"
    values = {key: value for key, value in CONFIG.get().items() if key.startswith(_PREFIX)}
    try:
        stack = config.parse(values, source=source)
        found = None if is_step() else resolved.resolve_artifacts(stack, name=name)
        for output, value in make(stack, artifacts=found, source=source).items():
            pulumi.export(output, value)
    except (config.ConfigError, resolved.ArtifactError, KubeconfigError) as error:
        # One message, no traceback: the description is wrong, not the program.
        pulumi.log.error(str(error))
        sys.exit(1)


def _go_quickly() -> None:
    """A preview of a thousand teams took 13.7 s of CPU without it and the CRDs as JSON, 9.2 with them.

    The SDK sends each of its debug messages, four a resource, to the engine and waits for the answer, with
    or without `--debug` (pulumi 3.272.0, log.py, read 2026-11-30). The program keeps nearly all that it
    makes, so the garbage collector looks a third of the time and finds next to nothing.
    """
    pulumi.log.debug = _say_nothing
    gc.set_threshold(100_000, 20, 50)


def _say_nothing(*_: object, **__: object) -> None:
    pass
