"""Bills of materials in CycloneDX 1.6.

That of an image lists the distribution's packages, the Python packages, and the Go modules of the player
where it has one. They are read from the image's own layers, so that the list always matches the image. The
same image gives the same bytes.
https://cyclonedx.org/docs/1.6/json/ and https://github.com/package-url/purl-spec name the fields.
"""

import gzip
import io
import json
import tarfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from typing import Any, Final
from urllib.parse import quote

from muster.artifacts.oci.image import Image
from muster.artifacts.publish.go_modules import build_info
from muster.local.build.images import PLAYER_PLACE

MEDIA_TYPE: Final = "application/vnd.cyclonedx+json"
# All of them in one file, or, where packages were only unpacked, one file for each.
_DPKG: Final = ("var/lib/dpkg/status", "var/lib/dpkg/status.d/")
_RELEASE: Final = "usr/lib/os-release"
_SITE: Final = "opt/muster/site/"
_METADATA: Final = ".dist-info/METADATA"
_PROGRAM: Final = PLAYER_PLACE.lstrip("/")
_NAME: Final = "gang-admission"


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """`purl` is the package's origin; `licence` is empty where the package does not name one."""

    purl: str
    name: str
    version: str
    licence: str = ""

    def component(self) -> dict[str, Any]:
        fields = {"type": "library", "bom-ref": self.purl, "name": self.name, "version": self.version}
        licences = {"licenses": [{"license": {"name": self.licence}}]} if self.licence else {}
        return {**fields, "purl": self.purl, **licences}


def bill(image: Image, *, created: str) -> bytes:
    """The document about this very image."""
    contents = _contents(image)
    program = contents.pop(_PROGRAM, None)
    files = {place: content.decode(errors="replace") for place, content in contents.items()}
    release = _release(files)
    modules = () if program is None else _go(program)
    packages = sorted({*_debian(files, release), *_python(files), *modules})
    reference = f"pkg:oci/{_NAME}@{quote(image.digest, safe='')}?arch={image.architecture}"
    subject = {
        "type": "container",
        "bom-ref": reference,
        "name": _NAME,
        "version": image.digest,
        "purl": reference,
    }
    return document(subject, packages, others=[_base(image, release)], created=created)


def document(
    subject: Mapping[str, Any],
    packages: Sequence[Package],
    *,
    others: Sequence[Mapping[str, Any]] = (),
    created: str,
) -> bytes:
    """The bill of `subject`, a component that consists of `packages`; `others` are listed beside them."""
    reference = str(subject["bom-ref"])
    written = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, reference)}",
        "version": 1,
        "metadata": {"timestamp": created, "component": subject},
        "components": [*(package.component() for package in packages), *others],
        "dependencies": [{"ref": reference, "dependsOn": [package.purl for package in packages]}],
    }
    return json.dumps(written, indent=1, sort_keys=True).encode()


def pypi(name: str, version: str, licence: str = "") -> Package:
    """A package of the Python Package Index. Its reference has the normalised name."""
    normal = name.lower().replace("_", "-").replace(".", "-")
    return Package(f"pkg:pypi/{normal}@{quote(version)}", name, version, licence)


def _golang(name: str, version: str) -> Package:
    """A Go module. Package URLs of Go are in lower case, whatever the module is called."""
    return Package(f"pkg:golang/{quote(name.lower())}@{quote(version, safe='')}", name, version)


def _base(image: Image, release: Mapping[str, str]) -> dict[str, Any]:
    """The root file system below everything, by its digest."""
    digest: str = image.config["rootfs"]["diff_ids"][0]
    return {
        "type": "operating-system",
        "bom-ref": f"base-{digest}",
        "name": release.get("ID", "unknown"),
        "version": release.get("VERSION_ID", "unknown"),
        "hashes": [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}],
    }


def _contents(image: Image) -> dict[str, bytes]:
    """The files that list packages. A file of an upper layer replaces the same file of a lower one."""
    found: dict[str, bytes] = {}
    for layer in json.loads(image.manifest)["layers"]:
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(image.blobs[layer["digest"]]))) as tar:
            for member in tar:
                place = member.name.removeprefix("./")
                if member.isfile() and _lists_packages(place) and (content := tar.extractfile(member)):
                    found[place] = content.read()
    return found


def _lists_packages(place: str) -> bool:
    is_python = place.startswith(_SITE) and place.endswith(_METADATA)
    return is_python or _lists_debian(place) or place in (_RELEASE, _PROGRAM)


def _lists_debian(place: str) -> bool:
    whole, each = _DPKG
    return place == whole or place.startswith(each)


def _release(files: Mapping[str, str]) -> Mapping[str, str]:
    """https://www.freedesktop.org/software/systemd/man/os-release.html"""
    lines = files.get(_RELEASE, "").splitlines()
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines) if value}


def _debian(files: Mapping[str, str], release: Mapping[str, str]) -> Iterator[Package]:
    distribution = f"{release.get('ID', 'debian')}-{release.get('VERSION_ID', '')}"
    lists = [text for place, text in files.items() if _lists_debian(place)]
    for stanza in (stanza for text in lists for stanza in text.split("\n\n")):
        fields = HeaderParser().parsestr(stanza)
        name, version = fields.get("Package"), fields.get("Version")
        if not name or not version or not fields.get("Status", "install").startswith("install"):
            continue
        purl = f"pkg:deb/{release.get('ID', 'debian')}/{quote(name)}@{quote(version, safe='')}"
        yield Package(f"{purl}?arch={fields.get('Architecture', '')}&distro={distribution}", name, version)


def _python(files: Mapping[str, str]) -> Iterator[Package]:
    for place, text in files.items():
        if place.endswith(_METADATA):
            fields = HeaderParser().parsestr(text)
            name, version = str(fields["Name"]), str(fields["Version"])
            licence = fields.get("License-Expression") or fields.get("License") or ""
            yield pypi(name, version, licence.splitlines()[0] if licence else "")


def _go(program: bytes) -> Iterator[Package]:
    """The standard library is linked in as well, and lists of vulnerabilities name it."""
    info = build_info(program, name=PLAYER_PLACE)
    yield _golang("stdlib", info.go)
    for name, version in info.modules:
        yield _golang(name, version)
