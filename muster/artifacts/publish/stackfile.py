"""Writes digests into a stack file: of the controller's image, of other images, and of charts.

A digest replaces the existing line, or becomes the first key. Every other byte of the file is kept, comments
included, because a person writes it.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from muster.artifacts import upstream
from muster.artifacts.catalogue import ChartEntry
from muster.artifacts.oci.registry import (
    Registry,
    RegistryError,
    Repository,
    Web,
    archive,
    credentials_for,
    digest_of,
)
from muster.artifacts.upstream import archive_name
from muster.errors import MusterError
from muster.model.stack import Stack
from muster.whole_file import write_whole

# Resolves the images that a stack names by tag to digests.
# The registry's first answer is trusted: a digest guarantees that later pulls are the same, not that the
# image is safe.


def pins(stack: Stack, *, web: Web) -> Iterator[tuple[str, str]]:
    """(name, `repository@digest`) of each as it comes. RegistryError or UnreachableError where there is
    none.
    """
    for name, reference in upstream.by_tag(stack).items():
        place, _, tag = reference.rpartition(":")
        repository = Repository.of(place)
        manifest = Registry(repository, credentials_for(repository.host), web).manifest(tag)
        yield name, f"{place}@{digest_of(manifest)}"


KEY: Final = "muster:image"
_LINE: Final = re.compile(rf"^(?P<indent>[ \t]+){KEY}:[^\n]*$", re.MULTILINE)
# A mapping in block style: one in braces is left to its writer.
_SECTIONS: Final = {
    kind: re.compile(rf"^(?P<indent>[ \t]+)muster:{kind}:[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
    for kind in ("images", "charts")
}
_CONFIG: Final = re.compile(r"^config:[ \t]*(?:#[^\n]*)?$", re.MULTILINE)


class StackFileError(MusterError):
    """A stack file in which the digest cannot be written."""


def write_image(path: Path, reference: str) -> None:
    """Replaces the file in one step."""
    text = with_image(path.read_text(encoding="utf-8"), reference, source=str(path))
    write_whole(path, text.encode())


def write_pins(path: Path, references: Mapping[str, str]) -> None:
    """Replaces the file in one step."""
    text = with_pins(path.read_text(encoding="utf-8"), references, source=str(path))
    write_whole(path, text.encode())


def write_charts(path: Path, digests: Mapping[str, str]) -> None:
    """Replaces the file in one step."""
    text = with_charts(path.read_text(encoding="utf-8"), digests, source=str(path))
    write_whole(path, text.encode())


def with_image(text: str, reference: str, *, source: str) -> str:
    """The text of a stack file with this image in it."""
    line = f"{KEY}: {reference}"
    if _LINE.search(text):
        return _LINE.sub(lambda found: f"{found['indent']}{line}", text, count=1)
    if not _CONFIG.search(text):
        raise StackFileError(f"{source} has no line `config:`; write `  {line}` below it yourself.")
    return _CONFIG.sub(lambda found: f"{found[0]}\n  {line}", text, count=1)


def with_pins(text: str, references: Mapping[str, str], *, source: str) -> str:
    """The text of a stack file with these images, by name, in its `muster:images`."""
    section, is_there = _section(text, "images", "write these among them yourself", references, source=source)
    if not is_there:
        return _inserted(text, section, f"{section[0]}\n  muster:images:", references, indent=" " * 4)
    return _inserted(text, section, section[0], references, indent=section["indent"] * 2)


def with_charts(text: str, digests: Mapping[str, str], *, source: str) -> str:
    """The text of a stack file with these digests, by chart, in its `muster:charts.digests`."""
    section, is_there = _section(text, "charts", "write these as their `digests`", digests, source=source)
    if not is_there:
        begun = f"{section[0]}\n  muster:charts:\n    digests:"
        return _inserted(text, section, begun, digests, indent=" " * 6)
    indent = section["indent"]
    own = re.compile(rf"^{indent * 2}digests:[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
    if (there := own.search(text, section.end())) is not None:
        return _inserted(text, there, there[0], digests, indent=indent * 3)
    return _inserted(text, section, f"{section[0]}\n{indent * 2}digests:", digests, indent=indent * 3)


def _section(
    text: str, kind: str, fix: str, entries: Mapping[str, str], *, source: str
) -> tuple[re.Match[str], bool]:
    """The line of `muster:<kind>` and True, or else the line below which it belongs and False."""
    if (found := _SECTIONS[kind].search(text)) is not None:
        return found, True
    if f"muster:{kind}:" in text:
        lines = ", ".join(f"{name}: {entry}" for name, entry in entries.items())
        raise StackFileError(f"{source} has its {kind} in braces; {fix}: {lines}")
    if (found := _CONFIG.search(text)) is not None:
        return found, False
    raise StackFileError(f"{source} has no line `config:`; its {kind} belong below one.")


def _inserted(
    text: str, place: re.Match[str], before: str, entries: Mapping[str, str], *, indent: str
) -> str:
    """The text with `before` in the place of what was found there, and the entries below it."""
    added = "".join(f"\n{indent}{name}: {value}" for name, value in entries.items())
    return text[: place.start()] + before + added + text[place.end() :]


# Fetches charts: into a folder, for clusters without access to a registry, and for their digests.
#
# Responsible for the name of a chart's archive in a folder (as `muster:charts.path` expects it) and for which
# digests a stack lacks. The first answer is trusted: a digest guarantees that later downloads are the same.


def fetch(entries: list[ChartEntry], folder: Path, *, mirror: str | None = None) -> Iterator[tuple[str, str]]:
    """(chart, digest) of each as it comes. RegistryError or UnreachableError where one cannot be had."""
    folder.mkdir(parents=True, exist_ok=True)
    web = Web()
    for entry in entries:
        content = archive(entry.chart, entry.version, home=mirror or entry.repository, web=web)
        digest = digest_of(content)
        if entry.digest and entry.digest != digest:
            raise RegistryError(
                f"{entry.name}: the fetched archive has digest {digest}, but versions.toml has "
                f"{entry.digest}."
            )
        (folder / archive_name(entry)).write_bytes(content)
        yield entry.name, digest


def digests(stack: Stack, *, web: Web) -> Iterator[tuple[str, str]]:
    """(chart, digest) of what the stack installs from its own source, where neither it nor versions.toml has
    one yet.
    """
    for name in upstream.without_digest(stack):
        yield name, digest_of(_archive(upstream.chosen(stack).charts[name], stack, web))


def _archive(entry: ChartEntry, stack: Stack, web: Web) -> bytes:
    chart = upstream.chart_of(entry, stack.charts)
    if chart.home is None:
        return Path(chart.reference).read_bytes()
    return archive(entry.chart, entry.version, home=chart.home, web=web)
