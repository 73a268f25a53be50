"""`muster new`."""

from collections.abc import Iterator
from pathlib import Path

import click

from muster import paths
from muster.cli.command import command
from muster.cli.options import DIRECTORY, MemberType, from_here
from muster.config.edit import write_stack
from muster.scaffold.project import SCHEMA, Target, lenient_policies, schema_text, stack_text, with_schema
from muster.scaffold.update import FILE as RECORD
from muster.scaffold.update import write_file

_EXAMPLES = """
muster new gke-dev --provider gke
muster new lab --provider existing
"""


@command(examples=_EXAMPLES)
@click.argument("stack")
@click.option(
    "--provider",
    type=MemberType(Target),
    required=True,
    help="Where the cluster is.",
)
@click.option(
    "--folder",
    type=DIRECTORY,
    metavar="DIR",
    show_default="stacks/ of the project",
    help="Where to write it.",
)
def cli(stack: str, *, provider: Target, folder: Path | None) -> None:
    """Write one more stack file, small and commented. Fill in what is marked `yours`.

    An existing file is not changed."""
    folder = folder or paths.project() / paths.STACKS
    path = write_stack(stack, with_schema(stack_text(provider, stack)), folder=folder)
    if not (folder / SCHEMA).exists():
        (folder / SCHEMA).write_text(schema_text(), encoding="utf-8")
        click.echo(f"{from_here(folder / SCHEMA)} written: with it, editors complete and check stack files.")
    project = folder.parent
    if (project / RECORD).is_file():
        for name, text in lenient_policies(stack).items():
            if not (project / name).exists():
                write_file(project / name, text)
                click.echo(f"{from_here(project / name)} written: the policies' levels for this stack.")
    click.echo(f"{from_here(path)} written. Next:")
    if not (project / paths.PROJECT_FILE).is_file():
        init = f"muster init {from_here(project)} --provider {provider} --name {stack}"
        click.echo(f"  {init}  # there is no project yet")
    for line in _next(provider, stack):
        click.echo(f"  {line}")


def _next(target: Target, stack: str) -> Iterator[str]:
    if target is Target.LOCAL:
        yield 'muster local up && eval "$(muster local env)"'
    else:
        where = " --repository host/path" if target is Target.EXISTING else ""
        yield f"muster validate {stack}  # after you have edited it"
        yield f"muster image push {stack}{where}"
    yield f"pulumi stack init {stack} && pulumi preview -s {stack}"
