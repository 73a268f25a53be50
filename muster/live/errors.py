"""What ends a command: the message says what, where, and how to go on."""

from muster.errors import MusterError


class PreviewError(MusterError):
    """An input, a file or a server that cannot be used. What follows the last ` Fix: ` is its fix."""

    def __init__(self, message: str) -> None:
        what, mark, fix = message.rpartition(" Fix: ")
        super().__init__(what if mark else message, fix=fix if mark else "")
