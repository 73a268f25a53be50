"""JSON from others: what it says however deep it is, and one exception where it says nothing.

Decides that depth costs an object nothing: Python gives up after about 950 levels with a RecursionError, the
API server takes 10,000, and `metadata.managedFields[].fieldsV1` is whatever a user with a few KiB to spare
writes into it. Leaves what does not decode to the callers, who know it as a msgspec.MsgspecError.

The limit is raised for one decode at a time, where it turned out to be too low; all other recursion keeps
it. Measured with msgspec 0.22 on Python 3.11, a level takes less than 40 bytes of the C stack where it is
skipped, as all is that no type names, and about 400 where it is built: 5 MiB at the very most, of the 8 that
a main thread has. From Python 3.12 on C has a limit of its own; what meets it is an object that does not
decode.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

D = TypeVar("D")

DEEPEST: Final = 10_000
"""Levels of an object that the API server still reads: Go's encoding/json has the same limit."""

_AROUND: Final = 2000
"""Levels around it: a list, a watch event or a review, and our own frames up to here."""


def decode(decoder: msgspec.json.Decoder[D], body: bytes | msgspec.Raw) -> D:
    """What `decoder` reads in `body`, of any depth that an object of the API may have. Raises only
    msgspec.MsgspecError.
    """
    try:
        return decoder.decode(body)
    except RecursionError:
        return _deeply(decoder, body)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"not UTF-8: {error}") from error


def _deeply(decoder: msgspec.json.Decoder[D], body: bytes | msgspec.Raw) -> D:
    try:
        with _limit(DEEPEST + _AROUND):
            return decoder.decode(body)
    except RecursionError as error:
        raise msgspec.DecodeError(f"nested deeper than {DEEPEST} levels") from error


@contextmanager
def _limit(levels: int) -> Iterator[None]:
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(usual, levels))
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)
