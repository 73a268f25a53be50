"""The error of an unusable input, file or server: what is wrong, where, and the fix."""

from muster.errors import MusterError


class PreviewError(MusterError):
    """An input, a file or a server that cannot be used."""
