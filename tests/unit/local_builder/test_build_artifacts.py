"""artifacts.json: what the Pulumi program is told."""

import json
from pathlib import Path

from muster.local.builder.cache import Cache
from muster.local.builder.images import Image
from muster.local.builder.store import Artifacts, link_programs

_HOST = {"pulumi-language-python", "pulumi-language-python-exec", "pulumi-analyzer-policy-python"}


def artifacts(tmp_path: Path) -> Artifacts:
    crd = tmp_path / "crd"
    crd.mkdir()
    (crd / "requests.yaml").write_text("")
    entry = Cache(tmp_path).entry("images", "kueue", "k")
    return Artifacts(
        programs={"etcd": tmp_path / "etcd"},
        assets={
            "kueue-chart": tmp_path / "chart",
            "kuberay-config": tmp_path / "config",
            "kwok-stages": tmp_path / "stages",
            "provisioningrequest-crd": crd,
        },
        images={"kueue": Image(name="kueue", tag="v1", digest="sha256:1", entry=entry)},
        stores={},
        path=tmp_path,
    )


def test_the_document_names_everything_the_program_reads(tmp_path: Path) -> None:
    document = artifacts(tmp_path).document()
    assert document["charts"] == {"kueue": str(tmp_path / "chart")}
    assert document["kustomize"] == {"kuberay": str(tmp_path / "config" / "default")}
    assert document["crds"] == {"provisioningrequests": str(tmp_path / "crd" / "requests.yaml")}
    assert document["images"] == {"kueue": "muster.local/kueue@sha256:1"}
    assert document["programs"] == {"etcd": str(tmp_path / "etcd")}


def test_writing_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "out" / "artifacts.json"
    made = artifacts(tmp_path)
    made.write(target)
    made.write(target)
    assert json.loads(target.read_text()) == made.document()
    assert [path.name for path in target.parent.iterdir()] == ["artifacts.json"]


def test_the_directory_for_path_holds_the_programs_and_their_companions(tmp_path: Path) -> None:
    source = tmp_path / "host"
    source.mkdir()
    for name in (*_HOST, "unrelated"):
        (source / name).write_text("")
    directory = link_programs(
        Cache(tmp_path / "cache"), {"pulumi-language-python": source / "pulumi-language-python"}
    )
    links = {path.name for path in directory.iterdir() if path.is_symlink()}
    assert links == _HOST
