"""The controller's image gets into a real registry for both processors, once, and the stack file names it."""

import io
import json
import re
import tarfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from muster import config, paths
from muster.artifacts import resolved
from muster.artifacts.catalogue import catalogue
from muster.artifacts.oci.image import Image, attach, attached, index_of, push
from muster.artifacts.oci.registry import INDEX, Registry, RegistryError, Repository, digest_of
from muster.artifacts.publish.bom import MEDIA_TYPE, bill
from muster.artifacts.publish.build import CREATED, MACHINES, build
from muster.cli import main
from muster.config.edit import template
from muster.local import LocalClusterError
from muster.local.builder.base_image import for_image, unrecorded
from muster.local.builder.cache import Cache
from muster.local.builder.images import PLAYER, PLAYER_PLACE
from muster.local.builder.versions import load
from muster.model.clusters import Provider
from muster.model.programs import mirrored
from tests import built
from tests.integration.images.test_charts import push_chart
from tests.unit.artifacts.test_bom import BASE, SITE
from tests.unit.artifacts.test_bom import image as small_image

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def images() -> tuple[Image, ...]:
    try:
        return build()
    except LocalClusterError as missing:
        built.absent(f"the image ({missing})")


@pytest.fixture(scope="module")
def bills(images: tuple[Image, ...]) -> dict[str, bytes]:
    """The bill of materials of each image, by the image's digest."""
    return {image.digest: bill(image, created=CREATED) for image in images}


def names(image: Image, layer: int) -> dict[str, tarfile.TarInfo]:
    told = json.loads(image.manifest)["layers"][layer]
    expanded = zlib.decompress(image.blobs[told["digest"]], wbits=31)
    with tarfile.open(fileobj=io.BytesIO(expanded)) as tar:
        return {member.name.removeprefix("./"): member for member in tar.getmembers()}


def test_a_second_build_is_equal_to_the_byte(images: tuple[Image, ...], tmp_path: Path) -> None:
    """From nothing, in another folder. A manifest names every layer and the settings by their digests."""
    cache = Cache(tmp_path / "a-longer-name-of-a-cache")
    again = build(cache)
    if moved := list(unrecorded(cache, load().python_base, MACHINES.values())):
        built.absent(f"the recorded packages of the distribution ({moved})")
    assert [image.manifest for image in again] == [image.manifest for image in images]


def test_both_processors_are_there_and_alike(images: tuple[Image, ...]) -> None:
    assert {image.architecture for image in images} == set(MACHINES)
    (settings,) = {json.dumps(image.config["config"], sort_keys=True) for image in images}
    assert json.loads(settings)["User"] == "65532:65532"
    for image in images:
        assert image.config["architecture"] == image.architecture
        assert image.config["os"] == "linux"


def test_the_other_processors_image_holds_its_python_and_our_code(images: tuple[Image, ...]) -> None:
    foreign = next(image for image in images if len(json.loads(image.manifest)["layers"]) == 2)
    base, code = names(foreign, 0), names(foreign, 1)
    assert "usr/bin/python3" in base
    assert "opt/muster/muster/controller/app.py" in code
    machine = MACHINES[foreign.architecture]
    compiled = [name for name in (*base, *code) if name.endswith(".so")]
    assert compiled
    assert not [name for name in compiled if "linux-gnu" in Path(name).name and machine not in name]
    assert {member.uid for member in code.values()} == {0}


def test_the_image_of_a_stack_that_forecasts_has_the_player_for_its_processor(
    images: tuple[Image, ...],
) -> None:
    built_for = {"amd64": 62, "arm64": 183}  # e_machine of the ELF header: elf.h
    plain = {image.architecture: len(json.loads(image.manifest)["layers"]) for image in images}
    for image in build(has_player=True):
        layers = json.loads(image.manifest)["layers"]
        assert len(layers) == plain[image.architecture] + 1
        expanded = zlib.decompress(image.blobs[layers[-1]["digest"]], wbits=31)
        with tarfile.open(fileobj=io.BytesIO(expanded)) as tar:
            (player,) = [each for each in tar.getmembers() if each.isfile()]
            assert f"/{player.name.removeprefix('./')}" == PLAYER_PLACE
            assert player.mode & 0o111 == 0o111
            program = tar.extractfile(player)
            assert program is not None
            assert int.from_bytes(program.read(20)[18:], "little") == built_for[image.architecture]
        kueue = load().programs[PLAYER]
        listed = {each.get("purl") for each in json.loads(bill(image, created=CREATED))["components"]}
        assert f"pkg:golang/{kueue.module}@{kueue.version}" in listed


def test_a_push_is_whole_and_a_second_one_sends_nothing(
    registry_host: str, images: tuple[Image, ...], tmp_path: Path
) -> None:
    registry = Registry(Repository.of(f"{registry_host}/muster/gang-admission"))
    digest = push(images, registry, tag="one")
    index: dict[str, Any] = json.loads(registry.manifest(digest))
    assert registry.manifest("one") == registry.manifest(digest)
    assert {entry["platform"]["architecture"] for entry in index["manifests"]} == set(MACHINES)
    for entry in index["manifests"]:
        manifest = json.loads(registry.manifest(entry["digest"]))
        for named in (manifest["config"], *manifest["layers"]):
            assert len(registry.blob(named["digest"])) == named["size"]
    assert push(images, registry, tag="one") == digest


def test_the_command_pushes_and_writes_the_digest(
    registry_host: str,
    images: tuple[Image, ...],
    bills: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stacks = tmp_path / "stacks"
    stacks.mkdir()
    (stacks / "Pulumi.x.yaml").write_text(template("x", Provider.GKE))
    (tmp_path / "Pulumi.yaml").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["image", "push", "x", "--repository", f"{registry_host}/other/place"]) == 0
    # It has built them anew: the same files give the same digest.
    reference = f"{registry_host}/other/place@{digest_of(index_of(images))}"
    assert f"  muster:image: {reference}\n" in (stacks / "Pulumi.x.yaml").read_text()
    registry = Registry(Repository.of(f"{registry_host}/other/place"))
    for digest, content in bills.items():
        assert attached(registry, digest, media_type=MEDIA_TYPE) == [content]


def test_the_bill_of_materials_is_what_was_pinned(images: tuple[Image, ...], bills: dict[str, bytes]) -> None:
    pinned = (paths.REQUIREMENTS / "controller.txt").read_text()
    for image in images:
        document = json.loads(bills[image.digest])
        found = {each["purl"] for each in document["components"] if "purl" in each}
        wanted = for_image(pinned, python="3.11", machine=MACHINES[image.architecture])
        names = re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\]+)", wanted, re.MULTILINE)
        assert {f"pkg:pypi/{name}@{version}" for name, version in names} == {
            purl for purl in found if purl.startswith("pkg:pypi/")
        }
        debian = {purl.partition("@")[0].rpartition("/")[2] for purl in found if purl.startswith("pkg:deb/")}
        assert {"python3", "python3.11-minimal", "libc6", "libssl3", "ca-certificates"} <= debian


def test_documents_stay_with_their_image_one_of_each(registry_host: str) -> None:
    registry = Registry(Repository.of(f"{registry_host}/documents"))
    small = small_image(BASE, SITE)
    push([small], registry, tag="one")
    subject = small.manifest
    for content, media_type in (
        (b"bill", MEDIA_TYPE),
        (b"other", "application/x-other"),
        (b"bill", MEDIA_TYPE),
    ):
        attach(registry, subject=subject, content=content, media_type=media_type)
    assert attached(registry, small.digest, media_type=MEDIA_TYPE) == [b"bill"]
    assert attached(registry, small.digest, media_type="application/x-other") == [b"other"]
    assert attached(registry, digest_of(b"nobody"), media_type=MEDIA_TYPE) == []


def test_the_command_pins_what_a_stack_takes_by_tag(
    registry_host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {}
    for name, reference in catalogue().images.items():
        place, _, tag = mirrored(reference, f"{registry_host}/m").rpartition(":")
        content = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}).encode()
        digest = Registry(Repository.of(place)).push_manifest(content, INDEX, tag=tag)
        expected[name] = f"{place}@{digest}"
    (tmp_path / "stacks").mkdir()
    file = tmp_path / "stacks" / "Pulumi.x.yaml"
    mirrors = f"  muster:images:\n    mirror: {registry_host}/m\n"
    mirrors += f"  muster:charts: # ours\n    mirror: oci://{registry_host}/charts\n"
    file.write_text(template("x", Provider.GKE) + mirrors)
    charts = {name: push_chart(registry_host, name) for name in resolved.installed(config.load(file))}
    (tmp_path / "Pulumi.yaml").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["image", "pin", "x"]) == 0
    written = file.read_text()
    used = ("kueue", "kuberay", "pause")
    assert dict(config.load(file).images.pinned) == {each: expected[each] for each in used}
    assert dict(config.load(file).charts.digests) == charts
    assert main(["image", "pin", "x"]) == 0
    assert file.read_text() == written


def test_a_registry_without_the_image_says_so(registry_host: str) -> None:
    registry = Registry(Repository.of(f"{registry_host}/nothing/here"))
    assert not registry.has_manifest("latest")
    with pytest.raises(RegistryError, match="no such repository or image"):
        registry.manifest("latest")
