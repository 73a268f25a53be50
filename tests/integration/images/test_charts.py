"""A chart whose digest is known gets to Helm as a file that has it, from a real registry and over HTTP."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from muster.artifacts.catalogue import ChartEntry, catalogue
from muster.artifacts.oci.registry import (
    CHART_LAYER,
    MANIFEST,
    Registry,
    RegistryError,
    Repository,
    Web,
    digest_of,
)
from muster.artifacts.publish.build import fetch
from muster.artifacts.resolved import FOLDER, ArtifactError, cached_chart
from muster.model.programs import OCI, Chart

CONTENT = b"a chart"
QUICK = Web(timeout=60, tries=1)


def push_chart(host: str, name: str, *, content: bytes = CONTENT) -> str:
    """The digest of an archive that the registry has as this chart of versions.toml from now on."""
    entry = catalogue().charts[name]
    registry = Registry(Repository.of(f"{host}/charts/{entry.chart}"))
    layer = {"mediaType": CHART_LAYER, "digest": registry.push_blob(content), "size": len(content)}
    config = {"mediaType": "application/json", "digest": registry.push_blob(b"{}"), "size": 2}
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
    registry.push_manifest(json.dumps(manifest).encode(), MANIFEST, tag=entry.version)
    return digest_of(content)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A chart repository as its users see it, and the folder that it serves."""
    folder = tmp_path / "repository"
    folder.mkdir()
    entry = {"version": "1.2.3", "urls": ["thing-1.2.3.tgz"]}
    (folder / "index.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "entries": {"thing": [entry]}}))
    (folder / "thing-1.2.3.tgz").write_bytes(CONTENT)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def in_registry(host: str, digest: str) -> Chart:
    entry = catalogue().charts["kueue"]
    reference = f"{OCI}{host}/charts/{entry.chart}"
    return Chart(name="kueue", reference=reference, version=entry.version, digest=digest)


def in_repository(home: str, digest: str) -> Chart:
    return Chart(name="thing", reference="thing", version="1.2.3", repository=home, digest=digest)


def test_a_registry_s_archive_is_compared_and_handed_over_as_a_file(registry_host: str) -> None:
    digest = push_chart(registry_host, "kueue")
    found = cached_chart(in_registry(registry_host, digest), web=QUICK)
    assert (found.version, found.repository) == (None, None)
    assert not Path(found.reference).is_absolute()
    assert Path(found.reference).read_bytes() == CONTENT


def test_an_archive_that_was_pushed_anew_under_the_same_version_is_refused(registry_host: str) -> None:
    digest = push_chart(registry_host, "kueue")
    push_chart(registry_host, "kueue", content=b"another chart")
    with pytest.raises(ArtifactError, match=r"has digest sha256:.*expected sha256:.*make pin"):
        cached_chart(in_registry(registry_host, digest), web=QUICK)
    assert not FOLDER.exists()


def test_a_repository_s_archive_is_compared_and_handed_over_as_a_file(repository: tuple[str, Path]) -> None:
    home, folder = repository
    chart = in_repository(home, digest_of(CONTENT))
    assert Path(cached_chart(chart, web=QUICK).reference).read_bytes() == CONTENT
    (folder / "index.yaml").unlink()
    assert Path(cached_chart(chart, web=QUICK).reference).read_bytes() == CONTENT, "fetched a second time"


def test_a_file_that_was_changed_here_is_fetched_again(repository: tuple[str, Path]) -> None:
    chart = in_repository(repository[0], digest_of(CONTENT))
    path = Path(cached_chart(chart, web=QUICK).reference)
    path.write_bytes(b"meddled with")
    assert Path(cached_chart(chart, web=QUICK).reference).read_bytes() == CONTENT


def test_an_archive_that_changed_in_its_repository_is_refused(repository: tuple[str, Path]) -> None:
    home, folder = repository
    (folder / "thing-1.2.3.tgz").write_bytes(b"another chart")
    with pytest.raises(ArtifactError, match="expected sha256:"):
        cached_chart(in_repository(home, digest_of(CONTENT)), web=QUICK)


def test_a_home_that_has_no_such_chart_says_what_else_can_be_named(repository: tuple[str, Path]) -> None:
    chart = Chart(name="x", reference="x", version="1", repository=repository[0], digest=digest_of(CONTENT))
    with pytest.raises(ArtifactError, match=r"lists no x 1.*muster:charts\.mirror"):
        cached_chart(chart, web=QUICK)


def test_what_has_no_digest_is_left_to_helm() -> None:
    chart = in_repository("http://127.0.0.1:9", digest="")
    assert cached_chart(chart, web=QUICK) == chart


def test_charts_are_fetched_from_a_mirror_and_compared(registry_host: str, tmp_path: Path) -> None:
    registry = Registry(Repository.of(f"{registry_host}/mirrored/kueue"))
    content = b"a chart"
    layer = {"mediaType": CHART_LAYER, "digest": registry.push_blob(content), "size": len(content)}
    config = {"mediaType": "application/json", "digest": registry.push_blob(b"{}"), "size": 2}
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
    registry.push_manifest(json.dumps(manifest).encode(), MANIFEST, tag="1.2.3")
    mirror = f"oci://{registry_host}/mirrored"
    entry = ChartEntry(
        name="kueue", chart="kueue", version="1.2.3", repository="oci://a.b/c", licence="L", unread="test"
    )
    assert dict(fetch([entry], tmp_path, mirror=mirror)) == {"kueue": digest_of(content)}
    assert (tmp_path / "kueue-1.2.3.tgz").read_bytes() == content
    other = ChartEntry(
        name="kueue", chart="kueue", version="1.2.3", repository="x", licence="L", digest="sha256:" + "0" * 64
    )
    with pytest.raises(RegistryError, match=r"but versions\.toml has sha256:"):
        list(fetch([other], tmp_path, mirror=mirror))
