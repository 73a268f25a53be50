"""The error of an unusable input, file or server: what is wrong, where, and the fix."""

from muster.errors import MusterError


class PreviewError(MusterError):
    """An input, a file or a server that cannot be used. What follows the last ` Fix: ` is its fix."""

    def __init__(self, message: str) -> None:
        what, mark, fix = message.rpartition(" Fix: ")
        super().__init__(what if mark else message, fix=fix if mark else "")
