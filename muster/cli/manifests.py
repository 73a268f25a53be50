"""Manifests on the command line as texts: a folder, a file, `-`, `none`, or a git revision.

A revision is `REVISION:PATH` as git has it, or a revision alone, which means the other side's path at that
revision.
"""

import dataclasses
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from muster.adopt.manifest_objects import ManifestObjects, Text, read_objects
from muster.adopt.manifests import load_manifests, playable
from muster.bounded_yaml import load_all
from muster.cli.output import STDOUT
from muster.cli.sides import files_at, is_revision
from muster.model.stack import Stack
from muster.preview.compare.replay import Replay, ReplayDiff
from muster.preview.inputs import NONE, InputError

ASSUMPTION: Final = (
    "Kueue's own configuration is in no manifest of a queue: it counts as Muster's default, "
    "without fair sharing."
)
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_KUSTOMIZATION: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
# What a kustomization may have that changes no object.
_PLAIN: Final = {"apiVersion", "kind", "metadata", "resources"}


@dataclass(frozen=True, slots=True)
class ManifestTexts:
    """`base` and `head` are None where a side has no object at all. `name`: what the report is called."""

    name: str
    base: tuple[Text, ...] | None
    head: tuple[Text, ...] | None


def load_texts(base: str, head: str) -> ManifestTexts:
    """InputError where a side is no folder, file or revision, or both are the same stream."""
    if base == head == STDOUT:
        raise InputError("--manifests - -: standard input has one side.", fix="name a folder for the other.")
    if base == head == NONE:
        raise InputError("--manifests none none: there is nothing to compare.", fix="name what changed.")
    name = next((_name(side) for side in (head, base) if side not in (STDOUT, NONE)), "")
    return ManifestTexts(
        name or "manifests", *(_side(one, other) for one, other in ((base, head), (head, base)))
    )


def load_stacks(base: str, head: str) -> tuple[str, Stack, Stack]:
    """What the report is called, and both sides as stacks that Kueue can decide in. InputError where a side
    has no queue, or the sides have queues of two schedulers.
    """
    named = load_texts(base, head)
    sides = load_manifests(named.name, named.base, named.head)
    if len(sides) != 1:
        raise InputError(
            f"--manifests {base} {head}: {'queues of two schedulers' if sides else 'there is no queue'}.",
            fix="name files with the queues of one scheduler.",
        )
    before, after = sides[0].base.stack, sides[0].head.stack
    if before is None or after is None:
        raise InputError(
            f"--manifests {base} {head}: {head if before else base} has no queue.",
            fix="name the files of its queues.",
        )
    return named.name, playable(before), playable(after)


def on_manifests(replay: Replay) -> Replay:
    """The replay of two sides of manifests."""

    def replayed(base: Stack, head: Stack) -> ReplayDiff:
        played = replay(playable(base), playable(head))
        return dataclasses.replace(played, assumptions=(*played.assumptions, ASSUMPTION))

    return replayed


def load_objects(side: str) -> tuple[str, ManifestObjects]:
    """What the objects are called, and those of one folder, file, stream or revision."""
    return _name(side) if side != STDOUT else "", read_objects(_side(side, "."))


def _name(side: str) -> str:
    path = Path(side)
    return (path.resolve() if path.exists() else Path(side.rpartition(":")[2])).stem


def _side(side: str, other: str) -> tuple[Text, ...] | None:
    if side == NONE:
        return None
    if side == STDOUT:
        return (Text("standard input", _decoded("standard input", sys.stdin.buffer.read())),)
    path = Path(side)
    found = list(_from_disk(path)) if path.exists() else list(_from_git(side, other))
    for each in found:
        _refuse_patches(each)
    return tuple(found)


def _from_disk(path: Path) -> Iterator[Text]:
    files = [path]
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if _is_manifest(each, path) and each.is_file())
    for file in files:
        try:
            content = file.read_bytes()
        except OSError as error:
            raise InputError(
                f"{file}: cannot be read: {error.strerror}.", fix="name readable files."
            ) from None
        yield Text(str(file), _decoded(str(file), content))


def _is_manifest(file: Path, folder: Path) -> bool:
    is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix in _SUFFIXES and not is_hidden


def _from_git(side: str, other: str) -> Iterator[Text]:
    revision, colon, inside = side.partition(":")
    beside = Path(other)
    folder = Path.cwd()
    if not colon and beside.exists():
        folder = beside if beside.is_dir() else beside.parent
        inside = "./" if beside.is_dir() else f"./{beside.name}"
    if not revision or not is_revision(revision, folder):
        raise InputError(
            f"--manifests {side}: is no folder, no file and no git revision.",
            fix="name a folder or file, -, none, REVISION:PATH, or a revision such as origin/main.",
        )
    if not inside:
        raise InputError(
            f"--manifests {side}: the revision's path is not known.",
            fix=f"name a folder as the other side, or write {revision}:PATH.",
        )
    found = files_at(revision, inside, folder)
    if found is None:
        where = inside if colon else other
        raise InputError(
            f"--manifests {side}: {where} does not exist at {revision}.",
            fix="correct the path, which begins at the repository's root; `none` is a side without objects.",
        )
    for name, content in found:
        if not name or _is_manifest(Path(name), Path()):
            place = f"{revision}:{inside.removeprefix('./')}"
            place = f"{place.rstrip('/')}/{name}".replace(":/", ":") if name else place
            yield Text(place, _decoded(place, content))


def _decoded(place: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(f"{place}:{line}: is not UTF-8 text.", fix="save it as UTF-8.") from None


def _refuse_patches(text: Text) -> None:
    """A kustomization is not applied here, so one that changes its resources would mislead."""
    if Path(text.place.rpartition(":")[2]).name not in _KUSTOMIZATION:
        return
    try:
        document = next(load_all(text.text), None)
    except (yaml.YAMLError, RecursionError):
        return
    if isinstance(document, dict) and "toolkit" not in str(document.get("apiVersion")):
        changing = sorted(str(key) for key in document.keys() - _PLAIN)
        if changing:
            raise InputError(
                f"{text.place}: changes objects ({', '.join(changing)}) and is not applied here.",
                fix="pipe what it renders: `kustomize build DIR | muster diff --manifests BASE -`.",
            )
