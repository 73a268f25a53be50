"""Fetches charts: into a folder, for clusters without access to a registry, and for their digests.

Responsible for the name of a chart's archive in a folder (as `muster:charts.path` expects it) and for which
digests a stack lacks. The first answer is trusted: a digest guarantees that later downloads are the same.
"""

from collections.abc import Iterator
from pathlib import Path

from muster.artifacts import upstream
from muster.artifacts.catalogue import ChartEntry
from muster.artifacts.oci.helm import archive
from muster.artifacts.oci.registry import RegistryError, digest_of
from muster.artifacts.oci.web import Web
from muster.artifacts.upstream import archive_name
from muster.model.stack import Stack


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
