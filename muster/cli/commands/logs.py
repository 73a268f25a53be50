"""`muster logs`."""

import threading
from collections.abc import Iterator
from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.options import (
    context_option,
    job_place,
    kubeconfig_option,
    kubeconfig_path,
    namespace_option,
)
from muster.cli.output import STDOUT, note, put
from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import Client, connect
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.live.fields import Json, items, text
from muster.live.why.job_status import fetch_job_pods
from muster.live.why.pods import log_path
from muster.printable import printable

_EXAMPLES = """
muster logs team-a/train
muster logs train --follow
muster logs train --tail 20
"""
# A job may print nothing for long.
_SILENT = 3600.0


@command(examples=_EXAMPLES, codes={ExitCode.FOUND: "There is no such job, or no pod of it has a log."})
@click.argument("job", metavar="[NAMESPACE/]NAME")
@click.option("-f", "--follow", "is_following", is_flag=True, help="Go on until the pods have ended.")
@click.option(
    "--tail", type=click.IntRange(0), metavar="N", help="The last N lines of each pod. Default: all."
)
@namespace_option
@kubeconfig_option
@context_option
def cli(
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
