"""How the last updates of a stack went: how long, with what result, how many resources."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from muster.errors import ExitCode, MusterError

_SECONDS: Final = 60
_TAKEN: Final = ("kind", "result", "startTime", "endTime", "resourceChanges")
"""Not the message and the environment of an update: they hold names."""


def updates(stack: str, *, project: Path) -> list[dict[str, Any]]:
    """The last ten updates, the newest first. `project`: the project's folder, or one below it.

    Raises MusterError where `pulumi` does not answer.
    """
    command = ["pulumi", "stack", "history", "--stack", stack, "--json", "--page-size", "10", "--page", "1"]
    try:
        done = subprocess.run(
            command, cwd=project, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        raise _no_history("`pulumi` is not on the PATH.") from None
    except subprocess.TimeoutExpired:
        raise _no_history(f"`pulumi stack history` gave no answer in {_SECONDS} s.") from None
    if done.returncode:
        raise _no_history(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed.")
    return [{key: each[key] for key in _TAKEN if key in each} for each in json.loads(done.stdout)]


def _no_history(message: str) -> MusterError:
    return MusterError(f"the stack's history was not read: {message}", exit_code=ExitCode.OUTSIDE)
