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
from muster.errors import ExitCode
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
"""


@command(examples=_EXAMPLES, codes=_CODES)
@stack_argument
@kubeconfig_option
@context_option
@json_option
def cli(stack: str, *, kubeconfig: Path | None, context: str, as_json: bool) -> ExitCode:
    """Check everything that a first `pulumi up` needs, and change nothing.

    Credentials, enabled APIs, the region's GPU quota, Pulumi's backend, its lock and secrets provider, the
    controller's image, the charts. With --context or --kubeconfig, and for an existing cluster, also whether
    the cluster's AdmissionChecks are active. Every failed check is printed with its fix.
    """
    file = existing_stack(stack)
    name, loaded = stack_name(file), config.load(file)
    found = []
    for finding in examine(loaded, name=name, file=file, cluster=_cluster(loaded, kubeconfig, context)):
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
