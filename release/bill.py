"""The bill of materials of the Python package, in CycloneDX 1.6: every version that was tested with it.

The wheel asks for ranges. `muster init` pins the versions listed here, which are those of the test run.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from muster.artifacts.publish.bom import Package, document, pypi
from muster.distribution import NAME

# A line as `uv pip compile` writes it: `name==1.2.3`, perhaps with a marker.
_PIN: Final = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)")


def bill_of_wheel(version: str, constraints: str, *, wheel: Path, created: str) -> bytes:
    """`constraints`: the text of muster/artifacts/data/requirements/constraints.txt. The files of the wheel
    are listed with their digests.
    """
    subject = {**pypi(NAME, version, "Apache-2.0").component(), "type": "application"}
    return document(subject, sorted(_pinned(constraints)), others=list(_files(wheel)), created=created)


def _files(wheel: Path) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            digest = hashlib.sha256(archive.read(name)).hexdigest()
            yield {
                "type": "file",
                "bom-ref": f"file:{name}",
                "name": name,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }


def _pinned(constraints: str) -> Iterator[Package]:
    for line in constraints.splitlines():
        if found := _PIN.match(line):
            yield pypi(found["name"], found["version"])
