"""Lines from a stream of chunks.

Splits watch events of any length: an object may be larger than the line limit of every ready-made reader.
"""


class LineSplitter:
    """Collects chunks and hands out whole lines without their newline. Empty lines are left out."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes."""
        first, *rest = chunk.split(b"\n")
        self._pieces.append(first)
        if not rest:
            return []
        lines = [b"".join(self._pieces), *rest[:-1]]
        self._pieces = [rest[-1]]
        return [line for line in lines if line.strip()]

    @property
    def pending(self) -> int:
        """Bytes of the line that is not complete yet."""
        return sum(map(len, self._pieces))
