"""`muster validate`."""

from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.options import (
    STACK,
    MemberType,
    json_option,
    stack_file_fix,
    stack_file_problem,
    stack_names,
    stack_path,
)
from muster.cli.output import STDOUT, put
from muster.errors import ExitCode, MusterError
from muster.preview.validate import FileResult, Format, check_file, format_findings, missing_file

_EXAMPLES = """
muster validate
muster validate gke-prod
muster validate stacks/Pulumi.gke-prod.yaml --format github
"""
_CODES = {
    ExitCode.DONE: "Every file is a valid stack; there may be warnings.",
    ExitCode.FOUND: "A file has mistakes.",
    ExitCode.UNUSABLE: "A file is not there (the others are checked), or there is nothing to check.",
}


@command(examples=_EXAMPLES, codes=_CODES)
@click.argument("stacks", type=STACK, nargs=-1, metavar="[STACK]...")
@click.option(
    "--format",
    "how",
    type=MemberType(Format),
    default=Format.TEXT.value,
    show_default=True,
    help="`github` writes annotations of a workflow, `gitlab` a Code Quality report.",
)
@json_option
def cli(stacks: tuple[str, ...], *, how: Format, as_json: bool) -> ExitCode:
    """Check stack files, offline: schema, rules, and the clouds' tables.

    STACK is the name of a stack of the project, or a file. Without one, every stack is checked.
    """
    files = [stack_path(stack) for stack in stacks or stack_names()]
    if not files:
        raise MusterError(
            "there is no stacks/Pulumi.*.yaml here.", fix="name the stack files, or write one: muster new."
        )
    checked = [_check(file) for file in files]
    put(STDOUT, format_findings(checked, Format.JSON if as_json else how))
    if any(each.is_missing for each in checked):
        return ExitCode.UNUSABLE
    return ExitCode.FOUND if any(each.errors for each in checked) else ExitCode.DONE


def _check(file: Path) -> FileResult:
    problem = stack_file_problem(file)
    return missing_file(file, problem, fix=stack_file_fix()) if problem else check_file(file)
