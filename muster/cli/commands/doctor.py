"""`doctor`: what stands between a stack and its first `up`."""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from muster import config
from muster.cli.commands.declare import Commands, command
from muster.cloud.doctor.examine import examine
from muster.cloud.doctor.findings import Finding, State
from muster.live.errors import PreviewError
from muster.live.sanitize import sanitize_line

_ABOUT: Final = """\
Looks at what a first `up` would trip over, and changes nothing: credentials, enabled APIs, the region's GPU
quota, Pulumi's backend, its lock and secrets provider, the controller's image, the charts. Each with its fix.

Exit code 0 when all is well or nothing is known to be wrong, 1 when something is, 2 when there is no such
stack.
"""
_EXAMPLES: Final = """\
examples:
  muster doctor gke-prod
  muster doctor eks-prod --json
"""
_SIGNS: Final = {State.OK: "ok     ", State.FAILED: "FAILED ", State.UNKNOWN: "?      "}


def add(commands: Commands) -> None:
    parser = command(
        commands, "doctor", help="what a first up would trip over", about=_ABOUT, examples=_EXAMPLES
    )
    parser.add_argument("stack", help="its name, or its file")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    named = Path(options.stack)
    file = named if named.suffix == ".yaml" else Path("stacks") / f"Pulumi.{options.stack}.yaml"
    name = file.name.removeprefix("Pulumi.").removesuffix(".yaml")
    try:
        stack = config.load(file)
    except config.ConfigError as error:
        raise PreviewError(str(error)) from None
    found = []
    for finding in examine(stack, name=name, file=file):
        found.append(finding)
        if not options.json:
            sys.stdout.write(_lines(finding))
            sys.stdout.flush()
    if options.json:
        json.dump({"stack": name, "findings": [each.document() for each in found]}, sys.stdout, indent=2)
        sys.stdout.write("\n")
    return 1 if any(each.state is State.FAILED for each in found) else 0


def _lines(finding: Finding) -> str:
    told = f"{_SIGNS[finding.state]}{finding.check}: {sanitize_line(finding.message, longest=500)}\n"
    return f"{told}       fix: {finding.fix}\n" if finding.fix else told
