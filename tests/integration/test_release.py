"""A release of this checkout, without the image, which takes minutes: with the real builders."""

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from muster.distribution import version, wheel_name
from release.__main__ import CHECKSUMS, ROOT
from release.packages import python_package


def release(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "release", "--without-image", "--out", str(out), *options)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_a_draft_holds_what_its_checksums_and_its_statement_name(tmp_path: Path) -> None:
    out = tmp_path / "release"
    done = release(out, "--draft", "--repository", "https://example.com/muster")
    assert done.returncode == 0, done.stderr
    subprocess.run(("sha256sum", "--check", "--strict", CHECKSUMS), cwd=out, timeout=60, check=True)
    provenance = out / f"muster-{version()}.provenance.json"
    named = {each["name"] for each in json.loads(provenance.read_text(encoding="utf-8"))["subject"]}
    assert named == {each.name for each in out.iterdir()} - {CHECKSUMS, provenance.name}
    with zipfile.ZipFile(out / wheel_name(version())) as wheel:
        assert "muster/cli/__init__.py" in wheel.namelist()
        assert not [name for name in wheel.namelist() if name.startswith(("release/", "tests/", "bench/"))]
    with tarfile.open(out / f"muster-{version()}-site.tar.gz") as site:
        assert f"muster-{version()}-site/index.html" in site.getnames()
    bill = json.loads((out / f"muster-{version()}.cdx.json").read_text(encoding="utf-8"))
    assert "muster/cli/__init__.py" in {each["name"] for each in bill["components"]}
    assert (out / "SECURITY-INSIGHTS.yml").is_file()
    assert "pkg:pypi/pulumi-kubernetes" in {each.get("purl", "").split("@")[0] for each in bill["components"]}


def test_two_builds_of_one_commit_are_the_same_wheel(tmp_path: Path) -> None:
    wheels = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        python_package(ROOT, folder, version=version(), made_at=1_764_000_000)
        wheels.append((folder / wheel_name(version())).read_bytes())
    assert wheels[0] == wheels[1]
