"""A bill of materials lists what is in the image, all of it and nothing else."""

import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any

from muster.artifacts.oci.image import Image, assemble, layer_of_tar
from muster.artifacts.publish.bom import bill
from muster.local.builder.images import PLAYER_PLACE
from tests.unit.artifacts.go_program import go_program

CREATED = "2025-01-01T00:00:00Z"
RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
LIBC = "Package: libc6\nStatus: install ok installed\nVersion: 2.36-9+deb12u14\nArchitecture: amd64\n"
GONE = "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\nArchitecture: all\n"
PYTHON = "Name: Some_Package\nVersion: 1.2.3\nLicense-Expression: MIT\n\nName: not a header\n"


def layer(files: Mapping[str, str | bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for place, held in files.items():
            content = held.encode() if isinstance(held, str) else held
            info = tarfile.TarInfo(place)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def image(*layers: Mapping[str, str | bytes]) -> Image:
    made = [layer_of_tar(layer(files)) for files in layers]
    return assemble(made, architecture="amd64", settings={}, created=CREATED)


def listed(subject: Image) -> dict[str, dict[str, Any]]:
    document = json.loads(bill(subject, created=CREATED))
    return {each["name"]: each for each in document["components"]}


BASE = {"./usr/lib/os-release": RELEASE, "./var/lib/dpkg/status": f"{LIBC}\n{GONE}"}
SITE = {"opt/muster/site/some_package-1.2.3.dist-info/METADATA": PYTHON, "opt/muster/model/x.py": ""}


def test_packages_of_both_kinds_are_listed_and_removed_ones_are_not() -> None:
    found = listed(image(BASE, SITE))
    assert found.keys() == {"libc6", "Some_Package", "debian"}
    assert found["libc6"]["purl"] == "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64&distro=debian-12"
    assert found["Some_Package"]["purl"] == "pkg:pypi/some-package@1.2.3"
    assert found["Some_Package"]["licenses"] == [{"license": {"name": "MIT"}}]


def test_the_modules_of_the_player_are_listed_and_its_standard_library() -> None:
    program = go_program("dep\tgithub.com/BurntSushi/toml\tv1.2.0+incompatible\th1:\n")
    found = listed(image(BASE, SITE, {PLAYER_PLACE.lstrip("/"): program}))
    purls = {name: each["purl"] for name, each in found.items() if "golang" in each.get("purl", "")}
    assert purls == {
        "github.com/BurntSushi/toml": "pkg:golang/github.com/burntsushi/toml@v1.2.0%2Bincompatible",
        "stdlib": "pkg:golang/stdlib@1.26.8",
    }


def test_packages_that_were_only_unpacked_are_listed_from_their_metadata() -> None:
    own = LIBC.replace("Status: install ok installed", "Priority: optional")
    unpacked = {"var/lib/dpkg/status": "", "var/lib/dpkg/status.d/libc6": own, "usr/lib/os-release": RELEASE}
    assert "libc6" in listed(image(unpacked))


def test_the_base_is_named_by_its_digest_and_the_image_by_its_own() -> None:
    subject = image(BASE, SITE)
    (base,) = [each for each in listed(subject).values() if each["type"] == "operating-system"]
    assert f"sha256:{base['hashes'][0]['content']}" == subject.config["rootfs"]["diff_ids"][0]
    document = json.loads(bill(subject, created=CREATED))
    assert document["metadata"]["component"]["version"] == subject.digest


def test_a_file_of_an_upper_layer_replaces_one_below() -> None:
    newer = {"var/lib/dpkg/status": LIBC.replace("u14", "u15")}
    assert listed(image(BASE, newer))["libc6"]["version"].endswith("u15")


def test_the_same_image_gives_the_same_bytes_and_another_one_others() -> None:
    assert bill(image(BASE, SITE), created=CREATED) == bill(image(BASE, SITE), created=CREATED)
    one, other = (json.loads(bill(each, created=CREATED)) for each in (image(BASE), image(BASE, SITE)))
    assert one["serialNumber"] != other["serialNumber"]


def test_every_reference_within_the_document_leads_somewhere() -> None:
    document = json.loads(bill(image(BASE, SITE), created=CREATED))
    known = {each["bom-ref"] for each in document["components"]} | {
        document["metadata"]["component"]["bom-ref"]
    }
    for dependency in document["dependencies"]:
        assert {dependency["ref"], *dependency["dependsOn"]} <= known
