"""`muster submit`."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from muster.check import manifests
from muster.cli.command import command
from muster.cli.commands.live import follow_job
from muster.cli.options import (
    STACK,
    TEAM,
    context_option,
    existing_stack,
    kubeconfig_option,
    kubeconfig_path,
    namespace_option,
)
from muster.cli.output import STDOUT, note, put
from muster.config import load
from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import Client, api_root, connect, inside
from muster.kubernetes.errors import ApiError
from muster.live.fields import Json, texts
from muster.live.fields import text as text_at
from muster.live.why.pods import HIDDEN
from muster.model import names
from muster.model.work import BY_KIND
from muster.paths import stack_name

_EXAMPLES = """
muster submit job.yaml --team vision
muster submit job.yaml --team vision --stack prod
muster submit job.yaml --team vision --dry-run
"""
_CODES = {
    ExitCode.DONE: "The job ended well; with --no-follow it was created, with --dry-run it would be.",
    ExitCode.FOUND: "An object was refused, and nothing was created; or the job failed, or was deleted.",
    ExitCode.INTERRUPTED: "Interrupted by Ctrl-C or SIGTERM. A job that was created goes on.",
}


@command(examples=_EXAMPLES, codes=_CODES)
@click.argument("file", metavar="FILE")
@click.option("--team", type=TEAM, required=True, metavar="TEAM", help="The team that submits it.")
@click.option("--stack", type=STACK, metavar="STACK", help="Check and fill in by this stack first, offline.")
@click.option("--dry-run", is_flag=True, help="Create nothing; print what would be created.")
@click.option(
    "--follow/--no-follow", "is_following", default=True, help="Show the job until it has finished."
)
@namespace_option
@kubeconfig_option
@context_option
def cli(
    file: str,
    *,
    team: str,
    stack: str | None,
    dry_run: bool,
    is_following: bool,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
) -> ExitCode:
    """Check a job, fill in what it leaves out, create it for a team, and follow it.

    FILE has Kubernetes objects in YAML or JSON; - is standard input. Namespace and queue are those of the
    team. The cluster judges every object by a dry run before the first is created; with --stack
    `muster check` does so before it, and fills in all that admission would. The job is followed as by
    `muster why --watch`.
    """
    source = sys.stdin.read() if file == STDOUT else manifests.read_text(Path(file))
    bodies: Sequence[dict[str, Any]] = manifests.read(source, file)
    config = kubeconfig_path(kubeconfig)
    cluster = connect(config, context=context)
    if stack is not None:
        bodies = _checked(bodies, existing_stack(stack), team)
        namespace = namespace or bodies[0]["metadata"]["namespace"]
    namespace = namespace or _namespace(cluster, team) or cluster.access.namespace
    queues = _queues(cluster, namespace)
    # Which of several without a default is the author's to say.
    queue = next((each for each in queues if len(queues) == 1 or each == names.DEFAULT_LOCAL_QUEUE), "")
    for body in bodies:
        body["metadata"].setdefault("namespace", namespace)
        if queue and _is_queued(body):
            body["metadata"]["labels"] = {names.QUEUE_LABEL: queue} | (body["metadata"].get("labels") or {})
    refusals = list(_refusals(cluster, bodies))
    if refusals:
        raise MusterError("\n".join(refusals), fix="change the file.", exit_code=ExitCode.FOUND)
    if dry_run:
        put(STDOUT, manifests.dump_all(bodies))
        return ExitCode.DONE
    created = [_create(cluster, body) for body in bodies]
    job = next((each for each in created if _is_queued(each)), None)
    if job is None or not is_following or not queues:  # KAI has no queues of a namespace.
        return ExitCode.DONE
    place = text_at(job, "metadata", "namespace"), text_at(job, "metadata", "name")
    note(f"Ctrl-C leaves it running: muster why {'/'.join(place)}, muster logs {'/'.join(place)}")
    return follow_job(cluster, *place)


def _is_queued(body: Json) -> bool:
    kind = BY_KIND.get(text_at(body, "kind"))
    return kind is not None and kind.is_queued


def _checked(bodies: Sequence[dict[str, Any]], file: Path, team: str) -> list[dict[str, Any]]:
    """The objects as `muster check --fix` writes them; MusterError where one would be refused."""
    # What judges takes longer to import than `--help` may.
    from muster.check import report
    from muster.check.admission import Admission

    admission = Admission(load(file), team, beside=bodies)
    fixed = [admission.fixed(body) for body in bodies]
    results = [report.result(admission, body) for body in fixed]
    written = report.text(results, stack=stack_name(file), team=team)
    if not all(each.answer.is_admitted for each in results):
        raise MusterError(written.rstrip(), exit_code=ExitCode.FOUND)
    note(written.rstrip())
    return fixed


def _listed(cluster: Client, path: str) -> list[str] | None:
    """The names of a list's objects, sorted; None where it may not be read or is not served."""
    found = cluster.find_all(path, lambda each: text_at(each, "metadata", "name"), absent=HIDDEN)
    return None if found is None else sorted(found)


def _namespace(cluster: Client, team: str) -> str:
    """The first of the team's namespaces, by Muster's label; "" where namespaces may not be listed."""
    label = f"{names.TEAM_LABEL}={team}"
    found = _listed(cluster, f"/api/v1/namespaces?labelSelector={quote(label, safe='')}")
    if found == []:
        raise MusterError(f"no namespace has the label {label}.", fix="name the team, or --namespace.")
    return found[0] if found else ""


def _queues(cluster: Client, namespace: str) -> list[str]:
    """The LocalQueues of a namespace; none with KAI."""
    path = f"/apis/{names.KUEUE_API_VERSION}{inside(namespace)}/localqueues"
    return _listed(cluster, path) or []


def _refusals(cluster: Client, bodies: Sequence[dict[str, Any]]) -> Iterator[str]:
    for body in bodies:
        try:
            cluster.call("POST", f"{_path(body)}?dryRun=All&fieldValidation=Strict", body)
        except ApiError as error:
            yield f"{manifests.title(body)}: {error.text}"


def _create(cluster: Client, body: dict[str, Any]) -> Json:
    try:
        created: dict[str, Any] = cluster.call("POST", f"{_path(body)}?fieldValidation=Strict", body)
    except ApiError as error:
        what = f"{manifests.title(body)}: answered {error.status}: {error.text}"
        raise MusterError(what, exit_code=ExitCode.OUTSIDE) from error
    metadata = created["metadata"]
    note(f"created {body['kind']} {metadata.get('namespace', '')}/{metadata['name']}{_queue_note(created)}")
    return {**created, "kind": body["kind"]}


def _queue_note(created: Json) -> str:
    queue = texts(created, "metadata", "labels").get(names.QUEUE_LABEL)
    return f" in queue {queue}" if queue else ""


def _path(body: dict[str, Any]) -> str:
    group, version, resource = manifests.resource_of(body)
    root = api_root(f"{group}/{version}" if group else version)
    return f"{root}{inside(body['metadata']['namespace'])}/{resource}"
