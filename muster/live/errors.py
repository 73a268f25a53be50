"""What ends a command: the message says what, where, and how to go on."""


class PreviewError(Exception):
    """An input, a file or a server that cannot be used."""
