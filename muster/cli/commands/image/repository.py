"""Where a stack's image is pushed to, checked before anything is built."""

from __future__ import annotations

from muster import config
from muster.artifacts.oci.registry import Repository
from muster.artifacts.publish.target import repository_of
from muster.cli.options import existing_stack


def repository(stack: str, named: str | None) -> Repository:
    """The named repository, else the stack's own; MusterError where the stack cannot be used or has none."""
    loaded = config.load(existing_stack(stack))
    return Repository.of(named if named is not None else repository_of(loaded))
