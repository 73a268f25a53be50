"""A play whose caller is killed with SIGKILL, after which the caller can end nothing itself."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tests.processes import children, has_ended
from tests.waiting import eventually

_CALLER: Final = """
import pickle, sys
play, where, entries, program = pickle.load(sys.stdin.buffer)
def asked():
    yield from entries
    print("asked", flush=True)
play(where, asked(), program=program)
print("played", flush=True)
"""


def ends_with_its_caller(
    play: Callable[..., Any], where: object, entries: Sequence[object], *, program: Path
) -> None:
    """Of a play that takes longer."""
    command = [sys.executable, "-c", _CALLER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        assert caller.stdin is not None
        assert caller.stdout is not None
        with caller.stdin:
            pickle.dump((play, where, entries, program), caller.stdin)
        assert caller.stdout.readline() == b"asked\n"
        (player,) = children(caller.pid)
        caller.kill()
        assert caller.stdout.read() == b"", "it had been played before its caller was killed"
    eventually("the player has ended", lambda: has_ended(player))
