"""The two sides of a comparison, as `muster diff` and `muster what-if` name them.

The head is what STACK names. The base is what `--base` names: a file, a git revision, or none.
"""

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from muster import paths
from muster.cli.options import existing_stack, stack_names, stack_path
from muster.cli.output import note
from muster.config.project import PROJECT_FILE, extended_file
from muster.errors import ExitCode, MusterError
from muster.paths import stack_name
from muster.preview.inputs import NONE, parse_stack_option

# The base of a comparison from git: which commit, and what a stack file was there.

_NAMES: Final = ("HEAD", "main", "master")
_SECONDS: Final = 60


def default_revision(folder: Path, *, is_gate: bool = False) -> str:
    """The commit where this branch left the default branch, which is noted.

    On the default branch itself that is HEAD, so that what is not committed is compared. MusterError where
    there is no default branch, and for a gate where HEAD is compared with itself.
    """
    head = _git(folder, "rev-parse", "--verify", "HEAD")
    if head is None:
        raise MusterError(
            f"{folder}: is not in a git repository with a commit, so there is no base to compare with.",
            fix="name one: --base FILE, or --base none for a new stack.",
        )
    for branch in _default_branches(folder):
        if found := _git(folder, "merge-base", "HEAD", branch):
            is_itself = found == head and not _git(folder, "status", "--porcelain")
            said = f"compared with {branch} at {found.decode()[:8]}"
            if is_itself and is_gate:
                raise MusterError(
                    f"the base is {branch}, which is HEAD, and nothing is uncommitted: both sides are equal.",
                    fix="name the commit before the change: --base HEAD~1.",
                )
            note(f"{said}, which is HEAD, and nothing is uncommitted" if is_itself else said)
            return found.decode().strip()
    raise MusterError(
        f"{folder}: no default branch (main or master, here or of a remote) shares a commit with HEAD.",
        fix="name the base: --base REVISION; --base HEAD compares what is not committed.",
    )


def _default_branches(folder: Path) -> list[str]:
    """What a remote says, origin first, then local names."""
    patterns = [f"refs/remotes/*/{name}" for name in _NAMES]
    refs = (_git(folder, "for-each-ref", "--format=%(refname:short)", *patterns) or b"").decode().split()
    order = {name: index for index, name in enumerate(_NAMES)}
    refs.sort(key=lambda ref: (not ref.startswith("origin"), order.get(ref.rpartition("/")[2], 0), ref))
    return [*refs, *_NAMES[1:]]


def check_revision(revision: str, folder: Path) -> None:
    """MusterError when git knows no such commit."""
    if not is_revision(revision, folder):
        raise MusterError(
            f"--base {revision}: is no file and no commit.",
            fix="name a stack file, a git revision such as origin/main, or none.",
        )


def is_revision(text: str, folder: Path) -> bool:
    """Whether git knows the text as a commit."""
    commit = f"{text}^{{commit}}"
    return _git(folder, "rev-parse", "--quiet", "--verify", "--end-of-options", commit) is not None


def files_at(revision: str, inside: str, folder: Path) -> list[tuple[str, bytes]] | None:
    """Every file below a path at that revision, by its name below it; of a file the name is "". None when the
    path was not there. `inside` begins at the repository's root, or with `./` at the folder.
    """
    at = f"{revision}:{inside}"
    kind = _git(folder, "cat-file", "-t", at)
    if kind is None:
        return None
    if kind.strip() == b"blob":
        return [("", _git(folder, "cat-file", "blob", at) or b"")]
    listed = (_git(folder, "ls-tree", "-r", "-z", "--full-tree", at) or b"").split(b"\0")
    entries = [each.partition(b"\t") for each in listed if each.startswith(b"100")]
    blobs = _git(
        folder, "cat-file", "--batch", stdin=b"".join(head.split()[2] + b"\n" for head, _, _ in entries)
    )
    found, start = [], 0
    for _, _, name in entries:
        end = (blobs or b"").index(b"\n", start)
        size = int((blobs or b"")[start:end].split()[2])
        found.append((name.decode(errors="replace"), (blobs or b"")[end + 1 : end + 1 + size]))
        start = end + size + 2
    return found


def file_at(revision: str, file: Path, *, into: Path) -> Path | None:
    """Write the file as it was at that revision into a directory; None when it was not there."""
    folder = _existing(file.parent)
    inside = file.absolute().relative_to(folder.absolute())
    content = _git(folder, "cat-file", "blob", f"{revision}:./{inside.as_posix()}")
    if content is None:
        return None
    into.mkdir(parents=True, exist_ok=True)
    target = into / file.name
    target.write_bytes(content)
    return target


def _existing(folder: Path) -> Path:
    """The nearest directory at or above that is there: a change may delete the last stack of a directory."""
    return next(each for each in (folder.absolute(), *folder.absolute().parents) if each.is_dir())


def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes | None:
    """Standard output; None when git refuses. MusterError where it trusts no repository of another user."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            input=stdin,
        )
    except FileNotFoundError:
        fix = "install git, or name the base's file: --base FILE."
        raise MusterError("git is not on PATH.", fix=fix, exit_code=ExitCode.OUTSIDE) from None
    if done.returncode and b"dubious ownership" in done.stderr:
        raise MusterError(
            f"{folder}: git refuses the repository, because another user owns it (dubious ownership).",
            fix=f"git config --global --add safe.directory {_top(folder)}",
            exit_code=ExitCode.OUTSIDE,
        )
    return done.stdout if done.returncode == 0 else None


def _top(folder: Path) -> Path:
    """The repository's folder."""
    above = (folder.absolute(), *folder.absolute().parents)
    return next((each for each in above if (each / ".git").exists()), folder.absolute())


_DEFAULT: Final = "Default: the stack's file where this branch left the default branch."
base_option = click.option(
    "--base",
    multiple=True,
    metavar="BASE",
    help=f"The stack before the change: [STACK=]FILE, a git revision, or `none`. {_DEFAULT} May be repeated.",
)
one_base_option = click.option(
    "--base",
    default="",
    metavar="BASE",
    help=f"The stack before the change: a file or a git revision. {_DEFAULT}",
)


@dataclass(frozen=True, slots=True)
class Head:
    """A stack with the change. A change that deletes the stack has no file, or is written `STACK=none`."""

    name: str
    file: Path
    is_deleted: bool = False

    @property
    def value(self) -> str:
        return f"{self.name}={NONE if self.is_deleted or not self.file.is_file() else self.file}"


def heads(stacks: Sequence[str]) -> list[Head]:
    """What the positional arguments name: NAME, FILE, STACK=FILE or STACK=none."""
    return [_head(stack) for stack in stacks]


def every_head(base: Sequence[str], *, is_gate: bool) -> tuple[list[Head], list[str]]:
    """Every stack that the project has or had at the base, and the base. None where the base is not one
    revision, or neither is there.
    """
    is_other = [bool(name) or not _is_revision(path) for name, path in map(parse_stack_option, base)]
    if len(base) > 1 or any(is_other) or not (base or stack_names()):
        return [], [*base]
    project = paths.project()
    revision = base[0] if base else default_revision(project, is_gate=is_gate)
    check_revision(revision, project)
    before = (Path(name) for name, _ in files_at(revision, f"./{paths.STACKS}", project) or ())
    names = {*stack_names(), *(stack_name(each) for each in before if each.match("Pulumi.*.yaml"))}
    return heads(sorted(names)), [revision]


def _is_revision(path: Path) -> bool:
    """Whether what `--base` names is neither a file nor none."""
    return str(path) != NONE and not path.is_file() and path.suffix not in (".yaml", ".yml")


def _head(stack: str) -> Head:
    name, path = parse_stack_option(stack)
    if not name:
        file = stack_path(stack)
        return Head(stack_name(file), file)
    if str(path) == NONE:
        return Head(name, stack_path(name), is_deleted=True)
    return Head(name, path)


def bases(values: Sequence[str], found: Sequence[Head], *, into: Path, is_gate: bool = False) -> list[str]:
    """The base of every head, as [STACK=]FILE or none. Files of a revision are written into a directory.

    MusterError where a head has neither a file nor a base: its name or its file is wrong. `is_gate`: an exit
    code depends on the comparison.
    """
    if values:
        named = [each for value in values for each in _base(value, found, into)]
    else:
        named, revisions = [], dict[Path, str]()
        for head in found:
            if (folder := _folder(head)) not in revisions:
                revisions[folder] = _default(head, is_gate=is_gate)
            named.append(_at(revisions[folder], head, into))
    for head in found:
        if not head.is_deleted and not _is_before(head.name, named):
            existing_stack(str(head.file))
    return named


def _default(head: Head, *, is_gate: bool) -> str:
    """The revision to compare with. Outside of git, a stack that does not exist is reported first."""
    try:
        return default_revision(_folder(head), is_gate=is_gate)
    except MusterError:
        if not head.is_deleted:
            existing_stack(str(head.file))
        raise


def _is_before(name: str, named: Sequence[str]) -> bool:
    """Whether the stack has a base that says its name."""
    parsed = (parse_stack_option(each) for each in named)
    return any(stack == name and str(path) != NONE for stack, path in parsed)


def _base(value: str, found: Sequence[Head], into: Path) -> Iterator[str]:
    name, path = parse_stack_option(value)
    text = str(path) if name else value
    if not _is_revision(path):
        yield value
        return
    for head in found:
        if name in ("", head.name):
            check_revision(text, _folder(head))
            yield _at(text, head, into)


def _at(revision: str, head: Head, into: Path) -> str:
    """The stack file in a folder of its own, with the project's file where the engine would look for it."""
    folder = head.file.absolute().parent
    inner = into / head.name / folder.name
    for project, place in ((folder, inner), (folder.parent, inner.parent)):
        file_at(revision, project / PROJECT_FILE, into=place)
    file = file_at(revision, head.file, into=inner)
    if file is not None:
        _add_extended(revision, file, folder)
    return f"{head.name}={file or NONE}"


def _add_extended(revision: str, file: Path, folder: Path) -> None:
    """The files that the stack extends at that revision, beside it."""
    below = extended_file(file)
    while below is not None and not below.is_file():
        if file_at(revision, folder / below.name, into=below.parent) is None:
            return
        below = extended_file(below)


def _folder(head: Head) -> Path:
    folder = head.file.parent
    return folder if folder.is_dir() else Path.cwd()
