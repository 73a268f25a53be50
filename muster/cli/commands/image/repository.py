"""Where a stack's image is pushed to, checked before anything is built."""

from pathlib import Path

from muster import config
from muster.artifacts.oci.registry import Repository
from muster.artifacts.publish.build import repository_of
from muster.cli.options import existing_stack
from muster.config.errors import ConfigError


def repository(stack: str, named: str | None) -> Repository:
    """The named repository, else the stack's own; MusterError where there is no such stack or it has none.

    A stack whose image goes to a named repository may still be incomplete: its file is only written to.
    """
    file = existing_stack(stack)
    return Repository.of(repository_of(config.load(file)) if named is None else named)


def has_player(file: Path) -> bool:
    """Whether the stack's recorder forecasts; False for a stack that is not complete yet."""
    try:
        return config.load(file).recording.forecasts
    except ConfigError:
        return False
