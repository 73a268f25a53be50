"""`muster init` and `new`: a project of your own, and its stack files."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from muster import paths
from muster.cli.command import command
from muster.cli.options import DIRECTORY, MemberType, from_here
from muster.cli.output import note
from muster.config.edit import write_stack
from muster.distribution import version, wheel_name
from muster.errors import ExitCode, MusterError
from muster.scaffold.project import (
    BESIDE,
    FOLDER,
    SCHEMA,
    Project,
    Target,
    compare,
    digest_of,
    lenient_policies,
    schema_text,
    stack_text,
    take_along,
    wheel_of,
    with_schema,
    write_file,
    write_project,
)
from muster.scaffold.project import FILE as RECORD

_INIT_EXAMPLES = """
muster init clusters --provider gke --name dev --name prod
muster init lab --provider local
muster init --update .
muster init --update --write .
"""


@command(examples=_INIT_EXAMPLES, codes={ExitCode.FOUND: "--update found a difference (without --write)."})
@click.argument("folder", type=DIRECTORY, metavar="DIR")
@click.option(
    "--provider",
    type=MemberType(Target),
    show_default="local, the cluster of this machine",
    help="Where the clusters are.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="STACK",
    show_default="dev, or local for the local cluster",
    help="A stack to write. May be repeated; CI deploys the stacks in this order.",
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.option(
    "--update", is_flag=True, help="Show as a diff what the templates of this version would change."
)
@click.option("--write", is_flag=True, help="With --update: write the changes.")
def init(
    folder: Path, *, provider: Target | None, names: tuple[str, ...], force: bool, update: bool, write: bool
) -> ExitCode | None:
    """Write a project of your own into DIR: program, stack, policies, requirements, CI files.

    An existing file is not changed. With --update, DIR is such a project. A file that you edited is never
    replaced: its new text goes into FILE.new beside it. Stack files and own rules belong to you.
    """
    if update:
        if provider or names or force:
            fix = "leave out --provider, --name and --force: the project has recorded its choices."
            raise MusterError("--update takes the choices of the project.", fix=fix)
        return _update(folder, write=write)
    if write:
        raise MusterError("--write needs --update.", fix="run `muster init --update --write DIR`.")
    _write(folder, provider or Target.LOCAL, names, force=force)
    return None


def _write(folder: Path, target: Target, names: tuple[str, ...], *, force: bool) -> None:
    if (folder / RECORD).is_file() and not force:
        raise MusterError(
            f"{folder} is a project of `muster init` already, with the record {RECORD}.",
            fix=f"`muster init --update {folder}` brings newer templates, `muster new NAME` one more stack.",
        )
    stacks = names or ("local" if target is Target.LOCAL else "dev",)
    wheel = wheel_of(folder, version(), prefer_installed=force)
    project = Project(
        target=target, stacks=stacks, version=version(), wheel_digest=digest_of(wheel) if wheel else ""
    )
    outcome = write_project(project, folder, force=force)
    for name in outcome.written:
        click.echo(f"wrote {folder / name}")
    for name in outcome.kept:
        click.echo(f"kept  {folder / name} (it exists; --force replaces it)")
    _take_along(wheel, folder)
    note(f"Next: the three commands of {folder / 'README.md'}.")


def _take_along(wheel: Path | None, folder: Path) -> None:
    if wheel is None:
        place = folder / FOLDER / wheel_name(version())
        note(
            f"Put Muster's wheel where pip will look for it, {place}, and record its digest: "
            f"`muster init --update --write {folder}`."
        )
    elif copy := take_along(wheel, folder):
        click.echo(f"wrote {copy}")


def _update(folder: Path, *, write: bool) -> ExitCode | None:
    wheel = wheel_of(folder, version(), prefer_installed=True)
    found = compare(folder, version=version(), wheel_digest=digest_of(wheel) if wheel else "")
    for change in found.changes:
        sys.stdout.writelines(change.diff())
        if change.is_edited:
            note(f"{change.path}: you edited it; --write puts the new text into {change.path}{BESIDE}.")
    if not found.changes:
        note("The templates of this version change nothing.")
    if write:
        found.apply()
        for change in found.changes:
            click.echo(f"wrote {folder / change.target}")
        _take_along(wheel, folder)
        return None
    return ExitCode.FOUND if found.changes else None


_NEW_EXAMPLES = """
muster new gke-dev --provider gke
muster new lab --provider existing
"""


@command(examples=_NEW_EXAMPLES)
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
def new(stack: str, *, provider: Target, folder: Path | None) -> None:
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
