"""Shows text that changes, and follows a job until it has finished."""

import contextlib
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Final

from muster.cli.output import STDOUT, is_terminal, put
from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import Client, inside
from muster.live.top import Changes
from muster.live.why.format import format_status
from muster.live.why.job_status import JobStatus, fetch_status
from muster.model import names
from muster.model.waiting import clock

# The alternate screen of a terminal, without a cursor, and back.
_OPEN: Final = "\x1b[?1049h\x1b[?25l"
_CLOSE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_REST_OF_LINE: Final = "\x1b[K"
_REST_OF_SCREEN: Final = "\x1b[J"


@contextlib.contextmanager
def pictures() -> Iterator[Callable[[Callable[[datetime], str]], None]]:
    """Show the text of a moment in place of the one before it. The terminal is left as it was, with the last
    text on it. Without a terminal only lines that the text before it did not have are written, with the time
    of day; for them the moment stays that of the first, because ages alone are no news.
    """
    shown, begun = "", datetime.now(UTC)

    def add(format_at: Callable[[datetime], str]) -> None:
        nonlocal shown
        text = format_at(begun)
        known, shown = set(shown.splitlines()), text
        fresh = [line for line in text.splitlines() if line not in known]
        put(STDOUT, "".join(f"{clock(datetime.now(UTC))}  {line}\n" for line in fresh))

    def draw(format_at: Callable[[datetime], str]) -> None:
        nonlocal shown
        shown = format_at(datetime.now(UTC))
        columns, rows = shutil.get_terminal_size()
        lines = [fit(line, columns) for line in shown.splitlines()[: rows - 1]]
        put(STDOUT, _HOME + "".join(f"{line}{_REST_OF_LINE}\n" for line in lines) + _REST_OF_SCREEN)

    if not is_terminal():
        yield add
        return
    put(STDOUT, _OPEN)
    try:
        yield draw
    finally:
        put(STDOUT, f"{_CLOSE}{shown}")


def fit(line: str, columns: int) -> str:
    """The line, cut off where it is wider than so many columns."""
    width = 0
    for index, character in enumerate(line):
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if width > columns:
            return f"{line[: max(index - 1, 0)]}…"
    return line


def follow_job(api: Client, namespace: str, name: str) -> ExitCode:
    """Show the status of a job until it has finished: DONE, or FOUND where it failed or was deleted."""
    changes = changes_of_work(api, namespace)
    with pictures() as show:
        while (status := fetch_status(api, namespace, name)) is not None:
            show(partial(_format_status, status))
            if status.is_finished:
                return ExitCode.FOUND if status.has_failed else ExitCode.DONE
            changes.wait()
    raise MusterError(f"{namespace}/{name} was deleted.", exit_code=ExitCode.FOUND)


def _format_status(status: JobStatus, now: datetime) -> str:
    return format_status(status, now=now)


def changes_of_work(api: Client, namespace: str) -> Changes:
    """Of what changes where the status of a job does. Everywhere where the namespace is empty."""
    work = inside(namespace)
    changes = Changes(
        api,
        {
            "workloads": f"/apis/{names.KUEUE_API_VERSION}{work}/workloads",
            "provisioningrequests": f"/apis/{names.PROVISIONING_API_VERSION}{work}/provisioningrequests",
            "pods": f"/api/v1{work}/pods",
        },
    )
    changes.follow()
    return changes
