"""`muster check`."""

import sys
from pathlib import Path

import click

from muster.check import manifests, report
from muster.check.admission import Admission
from muster.cli.command import command
from muster.cli.options import STACK, TEAM, existing_stack, json_option
from muster.cli.output import STDOUT, note, put, put_json
from muster.config import ConfigError, load
from muster.errors import ExitCode, MusterError
from muster.model.quantities import many
from muster.model.stack import Stack
from muster.paths import stack_name
from muster.validation.clusters import placeholder_rules

_EXAMPLES = """
muster check job.yaml --stack prod --team vision
muster check job.yaml --stack prod --team vision --json
muster check job.yaml --stack prod --team vision --fix | kubectl create -n vision -f -
"""
_CODES = {
    ExitCode.DONE: "Every object would be admitted; there may be warnings.",
    ExitCode.FOUND: "An object would be refused.",
    ExitCode.UNUSABLE: "A file is not there or has no object, or the stack is not valid or has no such team.",
}


@command(examples=_EXAMPLES, codes=_CODES)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--stack", type=STACK, required=True, metavar="STACK", help="A stack of the project, or a stack file."
)
@click.option("--team", type=TEAM, required=True, metavar="TEAM", help="The team that would submit it.")
@click.option(
    "--fix", is_flag=True, help="Print the objects with what admission would fill in, and judge those."
)
@json_option
def cli(files: tuple[str, ...], *, stack: str, team: str, fix: bool, as_json: bool) -> ExitCode:
    """Check offline whether a team's job would be admitted, and where it could run.

    FILE has Kubernetes objects in YAML or JSON; - is standard input. The rules are those that the stack
    installs. With --fix standard output is YAML without comments, and the answer goes to standard error.
    """
    if fix and as_json:
        raise MusterError("--fix and --json both write standard output.", fix="leave one of them out.")
    file = existing_stack(stack)
    described = _valid(file)
    bodies = [body for name in files for body in _read(name)]
    admission = Admission(described, team, beside=bodies)
    if fix:
        bodies = [admission.fixed(body) for body in bodies]
        put(STDOUT, manifests.dump_all(bodies))
    results = [report.result(admission, body) for body in bodies]
    name = stack_name(file)
    if as_json:
        put_json(report.record(results, stack=name, team=team))
    else:
        written = report.text(results, stack=name, team=team)
        print(written, end="", file=sys.stderr) if fix else put(STDOUT, written)
    return ExitCode.DONE if all(each.answer.is_admitted for each in results) else ExitCode.FOUND


def _valid(file: Path) -> Stack:
    """The stack. What it still has of an example makes `muster validate` fail, and no answer of admission."""
    try:
        stack = load(file)
    except ConfigError as error:
        raise MusterError(f"{file}: is not a valid stack, so nothing was judged.\n{error.message}") from None
    if examples := sum(1 for _ in placeholder_rules(stack)):
        note(
            f"{file}: is not valid yet: `muster validate` names {many(examples, 'value')} of an example. The "
            "answer does not depend on them."
        )
    return stack


def _read(name: str) -> tuple[manifests.Json, ...]:
    text = sys.stdin.read() if name == STDOUT else manifests.read_text(Path(name))
    return manifests.read(text, name)
