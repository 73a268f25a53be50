"""`muster doctor` and `backend create`: what a first `pulumi up` needs."""

import json
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import click

from muster import config
from muster.cli.command import command
from muster.cli.options import (
    FILE,
    context_option,
    existing_stack,
    json_option,
    kubeconfig_option,
    kubeconfig_path,
    stack_argument,
)
from muster.cli.output import note, put, put_json
from muster.cloud.backend import make
from muster.cloud.doctor.examine import Reach, examine
from muster.cloud.doctor.findings import Finding, State, record
from muster.cloud.doctor.support import check_prices, updates
from muster.cloud.price_lists import read_price_file, write_price_file
from muster.config.project import load_document
from muster.config.stack import today
from muster.distribution import version
from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import connect
from muster.model.prices import PriceTable
from muster.model.stack import Stack
from muster.paths import stack_name
from muster.printable import sanitize_line

_SIGNS: Final = {
    State.OK: "ok     ",
    State.FAILED: "FAILED ",
    State.UNKNOWN: "?      ",
    State.NOTE: "note   ",
}
_CODES = {
    ExitCode.DONE: "All checks passed, or could not be made.",
    ExitCode.FOUND: "A check failed.",
}


_EXAMPLES = """
muster doctor gke-prod
muster doctor eks-prod --json
muster doctor gke-prod --context gke-prod
muster doctor gke-prod --context gke-prod --probe-network
muster doctor eks-prod --prices prices.yaml
muster doctor gke-prod --context gke-prod --record first-run.json
"""


@command(examples=_EXAMPLES, codes=_CODES)
@stack_argument
@kubeconfig_option
@context_option
@click.option(
    "--probe-network",
    is_flag=True,
    help="Also try whether NetworkPolicies are enforced: two pods in muster-system for about a minute.",
)
@click.option(
    "--prices",
    type=FILE,
    metavar="FILE",
    help="Also read what the stack's machines cost from the cloud's list, into FILE, for "
    "`muster diff --prices FILE`. Prices of your own in it stay, and what was read today is not read again.",
)
@click.option(
    "--record",
    "record_file",
    type=FILE,
    metavar="FILE",
    help="Also write what was found and how the last updates went into FILE: JSON without names, to attach "
    "to a report. Read it before you publish it.",
)
@json_option
def cli(
    stack: str,
    *,
    kubeconfig: Path | None,
    context: str,
    probe_network: bool,
    prices: Path | None,
    record_file: Path | None,
    as_json: bool,
) -> ExitCode:
    """Check everything that a first `pulumi up` needs, and change nothing.

    Credentials, enabled APIs, the region's GPU quota, Pulumi's backend, its lock and secrets provider, the
    controller's image, the charts. With --context or --kubeconfig, and for an existing cluster, also whether
    the cluster's AdmissionChecks are active, and whether Karpenter removes what a failed gang leaves.
    Every failed check is printed with its fix, and each known issue that a setting of the stack brings.
    Only --probe-network makes objects in the cluster, and deletes them.
    """
    file = existing_stack(stack)
    name, loaded = stack_name(file), config.load(file)
    cluster = _cluster(loaded, kubeconfig, context)
    if probe_network and cluster is None:
        raise MusterError(
            "--probe-network needs a cluster to make its two pods in.",
            fix="name it with --context or --kubeconfig.",
        )
    found = []
    checks = examine(loaded, name=name, file=file, cluster=cluster, probes=probe_network)
    for finding in chain(checks, _prices(loaded, prices)):
        found.append(finding)
        if not as_json:
            click.echo(_lines(finding), nl=False)
    if record_file is not None:
        _write_record(record_file, file, loaded, found)
    if as_json:
        put_json({"stack": name, "findings": [each.document() for each in found]})
    return ExitCode.FOUND if any(each.state is State.FAILED for each in found) else ExitCode.DONE


def _prices(stack: Stack, file: Path | None) -> Iterator[Finding]:
    if file is None:
        return
    known = read_price_file(file) if file.exists() else PriceTable(())
    yield from check_prices(stack, known, partial(write_price_file, file), day=today())


def _write_record(target: Path, file: Path, stack: Stack, findings: list[Finding]) -> None:
    name = stack_name(file)
    try:
        done = updates(name, project=file.resolve().parent)
    except MusterError as error:
        note(f"{error} The record has no updates.")
        done = []
    content = record(
        stack,
        document=load_document(file).values,
        findings=findings,
        updates=done,
        name=name,
        version=version(),
    )
    put(str(target), json.dumps(content, indent=2) + "\n")


def _cluster(stack: Stack, kubeconfig: Path | None, context: str) -> Reach | None:
    """How to reach the cluster. That of a cloud has no context of its own in the stack."""
    cluster = stack.cluster
    if cluster.is_ours and kubeconfig is None and not context:
        return None
    if cluster.kubeconfig and kubeconfig is None:
        kubeconfig = Path(cluster.kubeconfig).expanduser()
    wanted = context or cluster.context or ""
    return lambda: connect(kubeconfig_path(kubeconfig), context=wanted)


def _lines(finding: Finding) -> str:
    line = f"{_SIGNS[finding.state]}{finding.check}: {sanitize_line(finding.message, longest=500)}\n"
    return f"{line}       fix: {finding.fix}\n" if finding.fix else line


@command(examples="muster backend create gke-prod")
@stack_argument
def backend_create(stack: str) -> None:
    """Create the bucket and the key for a stack's state and secrets.

    Existing ones are not changed. Prints the two Pulumi commands that use them.
    """
    file = existing_stack(stack)
    backend = make(config.load(file).cluster)
    click.echo("# The bucket of the state and the key of its secrets exist. Now run:")
    click.echo("\n".join(backend.commands(stack_name(file))))
