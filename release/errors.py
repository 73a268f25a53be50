"""What ends a release before it is whole."""

from __future__ import annotations

from muster.errors import MusterError


class ReleaseError(MusterError):
    """One line for each thing that is wrong, with its fix."""
