"""The error of a recording, or of a list to import, that cannot be used."""

from muster.errors import MusterError


class RecordingError(MusterError):
    """The message names the file and, where there is one, the line."""
