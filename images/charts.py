"""Fetches the charts of versions.toml into a folder, for clusters that reach no registry.

Decides what a chart's archive is called there (as `muster:charts.path` expects it) and prints its digest.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

import yaml

from model.charts import OCI
from oci.credentials import credentials_for
from oci.registry import Registry, RegistryError, Repository, digest_of
from oci.web import Web
from stackconfig.catalogue import ChartEntry
from stackconfig.upstream import archive_name

CHART_LAYER: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def fetch(entries: list[ChartEntry], folder: Path, *, mirror: str | None = None) -> Iterator[tuple[str, str]]:
    """(chart, digest) of each as it comes. RegistryError or Unreachable where one cannot be had."""
    folder.mkdir(parents=True, exist_ok=True)
    web = Web()
    for entry in entries:
        content = archive(entry, home=mirror or entry.repository, web=web)
        digest = digest_of(content)
        if entry.digest and entry.digest != digest:
            raise RegistryError(
                f"{entry.name}: what came is {digest}, but versions.toml says {entry.digest}."
            )
        (folder / archive_name(entry)).write_bytes(content)
        yield entry.name, digest


def archive(entry: ChartEntry, *, home: str, web: Web) -> bytes:
    """The chart's archive, from an OCI registry or a repository with an index."""
    if home.startswith(OCI):
        return _from_registry(entry, home, web)
    return _from_index(entry, home, web)


def _from_registry(entry: ChartEntry, home: str, web: Web) -> bytes:
    repository = Repository.of(f"{home.rstrip('/')}/{entry.chart}")
    registry = Registry(repository, credentials_for(repository.host), web)
    manifest = json.loads(registry.manifest(entry.version))
    layers = [layer for layer in manifest.get("layers", ()) if layer["mediaType"] == CHART_LAYER]
    if len(layers) != 1:
        raise RegistryError(f"{repository}:{entry.version} is no Helm chart.")
    return registry.blob(layers[0]["digest"])


def _from_index(entry: ChartEntry, home: str, web: Web) -> bytes:
    base = home.rstrip("/") + "/"
    index = yaml.safe_load(_get(urljoin(base, "index.yaml"), web))
    listed: list[dict[str, Any]] = (index.get("entries") or {}).get(entry.chart) or []
    found = next((each for each in listed if each.get("version") == entry.version), None)
    if found is None:
        raise RegistryError(f"{home} lists no {entry.chart} {entry.version}.")
    content = _get(urljoin(base, found["urls"][0]), web)
    if found.get("digest") and digest_of(content) != f"sha256:{found['digest'].removeprefix('sha256:')}":
        raise RegistryError(f"{entry.name}: the archive is not what {home} lists.")
    return content


def _get(url: str, web: Web) -> bytes:
    answer = web.call("GET", url)
    if answer.status != 200:
        raise RegistryError(
            f"{url} answers {answer.status}; check the address, or name a mirror with --mirror."
        )
    return answer.body
