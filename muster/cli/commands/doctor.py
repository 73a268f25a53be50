"""`muster doctor`."""

from __future__ import annotations

from typing import Final

import click

from muster import config
from muster.cli.command import command
from muster.cli.options import existing_stack, json_option, stack_argument, stack_name
from muster.cli.output import put_json
from muster.cloud.doctor.examine import examine
from muster.cloud.doctor.findings import Finding, State
from muster.errors import ExitCode
from muster.live.sanitize import sanitize_line

_SIGNS: Final = {State.OK: "ok     ", State.FAILED: "FAILED ", State.UNKNOWN: "?      "}
_CODES = {
    ExitCode.DONE: "All checks passed, or those that did not could not be made.",
    ExitCode.FOUND: "A check failed.",
}


@command(examples="muster doctor gke-prod\nmuster doctor eks-prod --json", codes=_CODES)
@stack_argument
@json_option
def cli(stack: str, *, as_json: bool) -> ExitCode:
    """Check everything that a first `pulumi up` needs, and change nothing.

    Credentials, enabled APIs, the region's GPU quota, Pulumi's backend, its lock and secrets provider, the
    controller's image, the charts. Every failed check is printed with its fix.
    """
    file = existing_stack(stack)
    name = stack_name(file)
    found = []
    for finding in examine(config.load(file), name=name, file=file):
        found.append(finding)
        if not as_json:
            click.echo(_lines(finding), nl=False)
    if as_json:
        put_json({"stack": name, "findings": [each.document() for each in found]})
    return ExitCode.FOUND if any(each.state is State.FAILED for each in found) else ExitCode.DONE


def _lines(finding: Finding) -> str:
    line = f"{_SIGNS[finding.state]}{finding.check}: {sanitize_line(finding.message, longest=500)}\n"
    return f"{line}       fix: {finding.fix}\n" if finding.fix else line
