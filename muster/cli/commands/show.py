"""`muster show`."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import click
import yaml

from muster.cli.command import command
from muster.cli.options import existing_stack, json_option, stack_argument
from muster.cli.output import STDOUT, put, put_json
from muster.config import ConfigError, load
from muster.config.document import Document
from muster.config.extends import origin_records, plain_values, to_text
from muster.config.project import load_document
from muster.config.stack import examine
from muster.errors import ExitCode
from muster.model.stack import Scheduler, Stack
from muster.render import tenancy
from muster.render.manifest import Manifest

_EXAMPLES = """
muster show prod
muster show prod --origins
muster show prod --json | jq '.config["muster:pools"]'
muster show prod --policies
"""
_CODES = {
    ExitCode.FOUND: "With --policies: the stack file has mistakes.",
    ExitCode.UNUSABLE: "A file is not there, or cannot be merged with what it extends.",
}
_WIDTH: Final = 100
# Of CEL, each looser than those after it.
_OPERATORS: Final = (
    (" ? ", " : "),
    (" || ",),
    (" && ",),
    (" == ", " != ", " <= ", " >= ", " < ", " > ", " in "),
    (" + ",),
    (".",),
)
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
# A point is one before a call in a chain.
_TOKENS: Final = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[(\[{)\]},]| (?:[?:+<>]|\|\||&&|==|!=|<=|>=|in) |(?<=[)\]}])\."""
)


@command(examples=_EXAMPLES, codes=_CODES)
@stack_argument
@click.option("--origins", is_flag=True, help="Add the file and the line of each value.")
@click.option(
    "--policies", is_flag=True, help="Print the admission policies of the stack instead, as YAML to read."
)
@json_option
def cli(stack: str, *, origins: bool, policies: bool, as_json: bool) -> None:
    """Print a stack as Muster reads it: its file, what that extends, and what Pulumi.yaml sets.

    The result is a stack file of its own, without `muster:extends`. A comment at its top names the pools in
    the order in which Kueue tries them. Its meaning is not checked: use `muster validate` for that.
    """
    if policies:
        objects = _policies(load(existing_stack(stack)))
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
    """Pools in the order in which Kueue tries them; none where they cannot be read, or KAI schedules."""
    stack, _ = examine(document)
    return [pool.name for pool in stack.pools] if stack and stack.scheduler is Scheduler.KUEUE else []


def _record(document: Document, *, origins: bool) -> dict[str, object]:
    found: dict[str, object] = {
        "file": Path(document.source).as_posix(),
        "poolOrder": _order(document),
        "config": plain_values(document),
    }
    return found | ({"origins": origin_records(document)} if origins else {})


def _policies(stack: Stack) -> list[Manifest]:
    """Each policy with its binding, as they stand in the cluster but for line breaks within expressions."""
    return [_with_lines(each) for each in tenancy.admission_objects(stack)]


def _with_lines(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_lines(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: "\n".join(cel_lines(each))
        if key in ("expression", "messageExpression") and "\n" not in each
        else _with_lines(each)
        for key, each in value.items()
    }


def cel_lines(expression: str, depth: int = 0) -> list[str]:
    """A CEL expression on several lines where it is long: at its loosest operators, then before the calls of
    a chain, then within its first brackets. White space outside of its strings has no meaning.
    """
    indent = "  " * depth
    if len(indent) + len(expression) <= _WIDTH:
        return [indent + expression]
    outside, brackets = _places(expression)
    for operators in _OPERATORS:
        if cuts := sorted(at for operator in operators for at in outside.get(operator, ())):
            first, *others = (expression[a:b].strip() for a, b in pairwise((0, *cuts, len(expression))))
            indented = (line for each in others for line in cel_lines(each, depth + 1))
            return [*cel_lines(first, depth), *indented]
    if len(brackets) < 2 or brackets[-1] == brackets[0] + 1:
        return [indent + expression]
    inner = [
        line
        for a, b in pairwise(brackets)
        for line in cel_lines(expression[a + 1 : b + (b != brackets[-1])].strip(), depth + 1)
    ]
    return [indent + expression[: brackets[0] + 1], *inner, indent + expression[brackets[-1] :]]


def _places(expression: str) -> tuple[dict[str, list[int]], list[int]]:
    """Where its operators and calls are outside of brackets; and its first brackets, with the commas between
    their arguments.
    """
    outside: dict[str, list[int]] = {}
    brackets = list[int]()
    depth, is_open = 0, True
    for token in _TOKENS.finditer(expression):
        text, at = token[0], token.start()
        if text in _CLOSING:
            depth -= 1
        is_of_first = is_open and depth == (text == ",")
        if text in (*_OPENING, *_CLOSING, ",") and is_of_first:
            brackets.append(at)
            is_open = text not in _CLOSING
        elif depth == 0 and text[0] not in "'\"":
            outside.setdefault(text, []).append(at)
        if text in _OPENING:
            depth += 1
    return outside, brackets


class _Dumper(yaml.SafeDumper):
    """Writes every value out, and lines as lines."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar(
            "tag:yaml.org,2002:str", text, style="|" if "\n" in text or "'" in text else None
        )


_Dumper.add_representer(str, _Dumper.represent_text)
