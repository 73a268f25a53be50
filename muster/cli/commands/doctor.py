"""`muster doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from muster import config
from muster.cli.command import command
from muster.cli.options import (
    context_option,
    existing_stack,
    json_option,
    kubeconfig_option,
    kubeconfig_path,
    stack_argument,
    stack_name,
)
from muster.cli.output import put_json
from muster.cloud.doctor.examine import Reach, examine
from muster.cloud.doctor.findings import Finding, State
from muster.errors import ExitCode, MusterError
from muster.live.cluster.api import Api
from muster.live.cluster.kubeconfig import connect
from muster.live.sanitize import sanitize_line
from muster.model.clusters import ExistingCluster
from muster.model.stack import Stack

_SIGNS: Final = {State.OK: "ok     ", State.FAILED: "FAILED ", State.UNKNOWN: "?      "}
_CODES = {
    ExitCode.DONE: "All checks passed, or those that did not could not be made.",
    ExitCode.FOUND: "A check failed.",
}


_EXAMPLES = """
muster doctor gke-prod
muster doctor eks-prod --json
muster doctor gke-prod --context gke-prod
muster doctor gke-prod --context gke-prod --probe-network
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
@json_option
def cli(stack: str, *, kubeconfig: Path | None, context: str, probe_network: bool, as_json: bool) -> ExitCode:
    """Check everything that a first `pulumi up` needs, and change nothing.

    Credentials, enabled APIs, the region's GPU quota, Pulumi's backend, its lock and secrets provider, the
    controller's image, the charts. With --context or --kubeconfig, and for an existing cluster, also whether
    the cluster's AdmissionChecks are active. Every failed check is printed with its fix.
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
    for finding in examine(loaded, name=name, file=file, cluster=cluster, probes=probe_network):
        found.append(finding)
        if not as_json:
            click.echo(_lines(finding), nl=False)
    if as_json:
        put_json({"stack": name, "findings": [each.document() for each in found]})
    return ExitCode.FOUND if any(each.state is State.FAILED for each in found) else ExitCode.DONE


def _cluster(stack: Stack, kubeconfig: Path | None, context: str) -> Reach | None:
    """How to reach the cluster. That of a cloud has no context of its own in the stack."""
    known = stack.cluster if isinstance(stack.cluster, ExistingCluster) else None
    if known is None and kubeconfig is None and not context:
        return None
    if known is not None and known.kubeconfig and kubeconfig is None:
        kubeconfig = Path(known.kubeconfig).expanduser()
    wanted = context or (known.context or "" if known else "")
    return lambda: Api(connect(kubeconfig_path(kubeconfig), context=wanted))


def _lines(finding: Finding) -> str:
    line = f"{_SIGNS[finding.state]}{finding.check}: {sanitize_line(finding.message, longest=500)}\n"
    return f"{line}       fix: {finding.fix}\n" if finding.fix else line
