"""`muster top`, `snapshot` and `logs`: what a cluster holds now, and how text that changes is shown."""

import contextlib
import shutil
import threading
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import click

from muster.cli.command import command
from muster.cli.options import (
    context_option,
    job_place,
    json_option,
    kubeconfig_option,
    kubeconfig_path,
    namespace_option,
)
from muster.cli.output import STDOUT, is_terminal, note, note_list, put, put_json, terminal_columns
from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import Client, connect, inside
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.live.fields import Json, items, text, to_json
from muster.live.snapshot import fetch_snapshot, format_snapshot
from muster.live.top import Changes, Mirror, Top, format_top, paths, to_top
from muster.live.why.format import format_status
from muster.live.why.job_status import fetch_job_pods, fetch_status
from muster.live.why.pods import log_path
from muster.model import names
from muster.model.waiting import clock
from muster.printable import printable

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
            show(partial(format_status, status))
            if status.is_finished:
                return ExitCode.FOUND if status.has_failed else ExitCode.DONE
            changes.wait()
    raise MusterError(f"{namespace}/{name} was deleted.", exit_code=ExitCode.FOUND)


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


_TOP_EXAMPLES = """
muster top
muster top --once --context prod
muster top --namespace team-a
muster top --json
"""
# Of a text that no terminal shows; COLUMNS sets another.
_WIDTH = 200


@command(examples=_TOP_EXAMPLES, codes={ExitCode.OUTSIDE: "The cluster cannot be read, or has no queues."})
@click.option("-n", "--namespace", default="", metavar="NAMESPACE", help="Show the jobs of one namespace.")
@click.option("--once", is_flag=True, help="Show it once. Default without a terminal.")
@kubeconfig_option
@context_option
@json_option
def top(*, namespace: str, once: bool, kubeconfig: Path | None, context: str, as_json: bool) -> None:
    """Show queues, jobs and nodes of a cluster as they change.

    Queues with quota, use, borrowed quota and waiting jobs; jobs with their step, deadline and reason; GPU
    nodes and the jobs that they run or were bought for. For any cluster with Kueue or KAI. Reads only, by
    list and watch; what you may not list is left out and named. Ctrl-C ends it.
    """
    mirror = Mirror(connect(kubeconfig_path(kubeconfig), context=context, tries=1), paths(namespace))
    mirror.read()
    if all("not served" in mirror.unreadable.get(name, "") for name in ("clusterqueues", "queues")):
        raise MusterError(
            "the cluster has no queues of Kueue or KAI.",
            fix="use the context of a cluster that runs one of them.",
            exit_code=ExitCode.OUTSIDE,
        )
    if as_json:
        put_json({"version": 1, **to_json(_top(mirror, datetime.now(UTC)))})
    elif once or not is_terminal():
        columns = shutil.get_terminal_size((_WIDTH, 24)).columns
        found = _top(mirror, datetime.now(UTC))
        lines = format_top(found, columns=terminal_columns()).splitlines()
        put(STDOUT, "".join(f"{fit(line, columns)}\n" for line in lines))
    else:
        mirror.follow()
        with pictures() as show:
            while True:
                show(lambda now: format_top(_top(mirror, now), columns=terminal_columns()))
                mirror.wait()


def _top(mirror: Mirror, now: datetime) -> Top:
    try:
        return to_top(mirror, now=now.replace(microsecond=0))
    except ValueError as error:
        raise MusterError(
            f"a quota of the cluster is no quantity: {error}", exit_code=ExitCode.OUTSIDE
        ) from None


_SNAPSHOT_EXAMPLES = """
muster snapshot > snapshot.json
muster snapshot --context prod --out snapshot.json
"""


@command(examples=_SNAPSHOT_EXAMPLES, codes={ExitCode.OUTSIDE: "The cluster cannot be read."})
@kubeconfig_option
@context_option
@click.option(
    "--out", default=STDOUT, metavar="OUT", help="Where to write; - is standard output, the default."
)
def snapshot(*, kubeconfig: Path | None, context: str, out: str) -> None:
    """Record the queues of a cluster and their Workloads as JSON.

    For `muster diff --snapshot` and `muster what-if --snapshot`. Holds every Workload that has not finished,
    or with KAI every PodGroup, its pods and the nodes; of pods it holds requests, node selectors,
    tolerations, and with KAI their node and share of a GPU, and no environment, command, volume, image, other
    annotation or message. Only lists are read; nothing is written to the cluster.
    """
    api = connect(kubeconfig_path(kubeconfig), context=context, progress=note_list)
    found = fetch_snapshot(api)
    if found.lacks_work:
        note("`list` is missing on pods, nodes, podgroups or bindrequests: `muster what-if` needs them.")
    put(out, format_snapshot(found))


_LOGS_EXAMPLES = """
muster logs team-a/train
muster logs train --follow
muster logs train --tail 20
"""
# A job may print nothing for long.
_SILENT = 3600.0


@command(examples=_LOGS_EXAMPLES, codes={ExitCode.FOUND: "There is no such job, or no pod of it has a log."})
@click.argument("job", metavar="[NAMESPACE/]NAME")
@click.option("-f", "--follow", "is_following", is_flag=True, help="Go on until the pods have ended.")
@click.option(
    "--tail", type=click.IntRange(0), metavar="N", help="The last N lines of each pod. Default: all."
)
@namespace_option
@kubeconfig_option
@context_option
def logs(
    job: str, *, is_following: bool, tail: int | None, namespace: str, kubeconfig: Path | None, context: str
) -> ExitCode:
    """Print the logs of a job's pods, each line with its pod where there are several.

    NAME is a job of any kind that is queued, or a Workload. Of a pod the first container is read.
    """
    config = kubeconfig_path(kubeconfig)
    space, name = job_place(job, namespace, config, context)
    api = connect(config, context=context)
    pods = fetch_job_pods(api, space, name)
    if not pods:
        what = f"{space}/{name}: {'no pods' if pods is not None else 'there is no job of this name'}."
        raise MusterError(what, fix=f"muster why {space}/{name}", exit_code=ExitCode.FOUND)
    options = {"follow": str(is_following).lower()} | ({} if tail is None else {"tailLines": str(tail)})
    done: list[bool] = []

    def show(pod: Json) -> None:
        prefix = f"{_name(pod)} | " if len(pods) > 1 else ""
        try:
            for line in _lines(api, space, pod, options):
                put(STDOUT, f"{prefix}{printable(line)}\n")
            done.append(True)
        except (ApiError, UnreachableError) as error:
            note(f"{_name(pod)}: {error}")

    threads = [threading.Thread(target=show, args=(pod,), daemon=True) for pod in pods]
    for thread in threads:
        thread.start()
        if not is_following:
            thread.join()
    for thread in threads:
        thread.join()
    return ExitCode.DONE if done else ExitCode.FOUND


def _name(pod: Json) -> str:
    return printable(text(pod, "metadata", "name"))


def _lines(api: Client, namespace: str, pod: Json, options: dict[str, str]) -> Iterator[str]:
    container = next((text(each, "name") for each in items(pod, "spec", "containers")), "")
    path = log_path(namespace, text(pod, "metadata", "name"), container=container, **options)
    return api.lines(path, silent=_SILENT)
