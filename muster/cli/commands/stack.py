"""`muster validate`, `show` and `render`: whether a stack file is valid, and what it means, as text."""

from pathlib import Path
from typing import Final

import click
import yaml

from muster.cli.command import command
from muster.cli.options import (
    STACK,
    MemberType,
    existing_stack,
    json_option,
    stack_argument,
    stack_file_fix,
    stack_file_problem,
    stack_names,
    stack_path,
)
from muster.cli.output import STDOUT, put, put_json
from muster.config import ConfigError, load
from muster.config.document import Document
from muster.config.project import load_document, origin_records, plain_values, to_text
from muster.config.stack import examine
from muster.errors import ExitCode, MusterError
from muster.preview.validate import FileResult, Format, check_file, format_findings, missing_file

_VALIDATE_EXAMPLES = """
muster validate
muster validate gke-prod
muster validate stacks/Pulumi.gke-prod.yaml --format github
"""
_VALIDATE_CODES = {
    ExitCode.DONE: "Every file is a valid stack; there may be warnings.",
    ExitCode.FOUND: "A file has mistakes.",
    ExitCode.UNUSABLE: "A file is not there (the others are checked), or there is nothing to check.",
}


@command(examples=_VALIDATE_EXAMPLES, codes=_VALIDATE_CODES)
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
def validate(stacks: tuple[str, ...], *, how: Format, as_json: bool) -> ExitCode:
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


_SHOW_EXAMPLES = """
muster show prod
muster show prod --origins
muster show prod --json | jq '.config["muster:pools"]'
muster show prod --policies
"""
_SHOW_CODES = {ExitCode.UNUSABLE: "A file is not there, has mistakes, or cannot be merged with another."}
_WIDTH: Final = 100


@command(examples=_SHOW_EXAMPLES, codes=_SHOW_CODES)
@stack_argument
@click.option("--origins", is_flag=True, help="Add the file and the line of each value.")
@click.option(
    "--policies", is_flag=True, help="Print the admission policies of the stack instead, as YAML to read."
)
@json_option
def show(stack: str, *, origins: bool, policies: bool, as_json: bool) -> None:
    """Print a stack as Muster reads it: its file, what that extends, and what Pulumi.yaml sets.

    The result is a stack file of its own, without `muster:extends`. A comment at its top names the pools in
    the order in which Kueue tries them. Its meaning is not checked: use `muster validate` for that.
    """
    if policies:
        # Rendering is loaded where it is asked for: `muster validate` does without it.
        from muster.render import tenancy

        objects = tenancy.admission_objects(load(existing_stack(stack)))
        if as_json:
            put_json({"policies": objects})
        else:
            put(STDOUT, yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=_WIDTH))
        return
    document = load_document(existing_stack(stack))
    if document.violations:
        raise ConfigError(document.violations, document)
    if as_json:
        put_json(_record(document, origins=origins))
    else:
        order = ", ".join(_order(document))
        head = f"# Work goes to these pools, first to last: {order}\n" if order else ""
        put(STDOUT, head + to_text(document, origins=origins))


def _order(document: Document) -> list[str]:
    """Pools in the order in which they are tried; none where they cannot be read, or have none."""
    stack, _ = examine(document)
    return [pool.name for pool in stack.pools] if stack and stack.scheduler.traits.has_flavors else []


def _record(document: Document, *, origins: bool) -> dict[str, object]:
    found: dict[str, object] = {
        "file": Path(document.source).as_posix(),
        "poolOrder": _order(document),
        "config": plain_values(document),
    }
    return found | ({"origins": origin_records(document)} if origins else {})


class _Dumper(yaml.SafeDumper):
    """Writes every value out, and lines as lines."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar(
            "tag:yaml.org,2002:str", text, style="|" if "\n" in text or "'" in text else None
        )


_Dumper.add_representer(str, _Dumper.represent_text)


_RENDER_EXAMPLES = """
muster render gke-prod
muster render gke-prod --out manifests/gke-prod.yaml
muster render gke-prod | kubectl apply --dry-run=server -f -
"""
_MANIFEST_WIDTH: Final = 110
_RENDER_CODES = {ExitCode.UNUSABLE: "The stack file is not there, or has mistakes."}


@command(examples=_RENDER_EXAMPLES, codes=_RENDER_CODES)
@stack_argument
@click.option("--out", default=STDOUT, metavar="OUT", help="Write into this file; - is standard output.")
def render(stack: str, *, out: str) -> None:
    """Write the queue objects of a stack as YAML, in the order in which they can be applied.

    Priorities, flavors, checks and queues of Kueue or KAI, and the namespaces of teams with what Muster puts
    into them, for Argo CD, Flux, kustomize or kubectl. Not among them: the programs, gang admission
    and admission policies, which `pulumi up` installs.
    """
    from muster.render import queues

    objects = queues.objects(load(existing_stack(stack)))
    put(
        out,
        yaml.dump_all(
            objects, Dumper=_ManifestDumper, sort_keys=False, allow_unicode=True, width=_MANIFEST_WIDTH
        ),
    )


class _ManifestDumper(yaml.SafeDumper):
    """Writes every value out: objects share parts, and an alias reads badly in a manifest."""

    def ignore_aliases(self, data: object) -> bool:
        return True
