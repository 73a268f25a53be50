"""A Helm chart's archive: from an OCI registry, or from a repository with an index.

Responsible for finding the archive of a version and for comparing a registry's answer with its digest.
"""

import json
from typing import Any, Final
from urllib.parse import urljoin

import yaml

from muster.artifacts.oci.registry import Registry, RegistryError, Repository, credentials_for, digest_of
from muster.artifacts.oci.web import Web

OCI: Final = "oci://"
CHART_LAYER: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def archive(chart: str, version: str, *, home: str, web: Web) -> bytes:
    """`home`: `oci://host/path`, or the address of a repository. RegistryError or UnreachableError where it
    cannot be had.
    """
    if home.startswith(OCI):
        return _from_registry(chart, version, home, web)
    return _from_index(chart, version, home, web)


def _from_registry(chart: str, version: str, home: str, web: Web) -> bytes:
    repository = Repository.of(f"{home.rstrip('/')}/{chart}")
    registry = Registry(repository, credentials_for(repository.host), web)
    # A tag has no plus sign; Helm writes an underscore for it.
    manifest = json.loads(registry.manifest(version.replace("+", "_")))
    layers = [layer for layer in manifest.get("layers", ()) if layer["mediaType"] == CHART_LAYER]
    if len(layers) != 1:
        raise RegistryError(f"{repository}:{version} is no Helm chart.")
    return registry.blob(layers[0]["digest"])


def _from_index(chart: str, version: str, home: str, web: Web) -> bytes:
    base = home.rstrip("/") + "/"
    index = yaml.safe_load(_get(urljoin(base, "index.yaml"), web))
    listed: list[dict[str, Any]] = (index.get("entries") or {}).get(chart) or []
    found = next((each for each in listed if each.get("version") == version), None)
    if found is None:
        raise RegistryError(f"{home} lists no {chart} {version}.")
    content = _get(urljoin(base, found["urls"][0]), web)
    if found.get("digest") and digest_of(content) != f"sha256:{found['digest'].removeprefix('sha256:')}":
        raise RegistryError(f"{chart} {version}: the archive is not what {home} lists.")
    return content


def _get(url: str, web: Web) -> bytes:
    answer = web.call("GET", url)
    if answer.status != 200:
        raise RegistryError(f"{url} answers {answer.status}; check the address, or name a mirror.")
    return answer.body
