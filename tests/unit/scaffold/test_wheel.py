"""A project installs the wheel that Muster was installed from, whatever an index has under its name."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

import pytest

from muster import distribution
from muster.cli import main
from muster.distribution import NAME, install_command, installed_wheel, version, wheel_name

FILE = wheel_name(version())
TIMEOUT = 120
# The index has both, whoever they belong to: the distribution's name and that of the command.
NAMES = (NAME, "muster")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What pip recorded about the installation: a file to write."""
    folder = tmp_path / "muster.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Name: {NAME}\nVersion: {version()}\n", encoding="utf-8")
    monkeypatch.setattr(metadata, "distribution", lambda _: metadata.PathDistribution(folder))
    return folder / "direct_url.json"


@pytest.fixture
def wheel(tmp_path: Path, recorded: Path) -> Path:
    """A wheel of this version, from which Muster was installed."""
    made = write_wheel(tmp_path / "with space", NAME, version(), content="ours")
    recorded.write_text(json.dumps({"archive_info": {}, "url": made.as_uri()}), encoding="utf-8")
    return made


@pytest.fixture
def project(wheel: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    assert main(["init", str(folder), "--provider", "gke"]) == 0
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """The address of a package index that has a stranger's wheels: of the same version and of better ones."""
    root = tmp_path / "index"
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    for name in NAMES:
        folder = root / name
        write_wheel(folder, name, version(), content="foreign")
        write_wheel(folder, name, version(), content="foreign", build="1-")
        write_wheel(folder, name, version(), content="foreign", tag=f"{tag}-{tag}-manylinux_2_17_x86_64")
        write_wheel(folder, name, f"{version()}.post1", content="foreign")
        write_wheel(folder, name, "99.0.0", content="foreign")
        links = [f'<a href="{each.name}">{each.name}</a>' for each in sorted(folder.glob("*.whl"))]
        (folder / "index.html").write_text("\n".join(links), encoding="utf-8")

    handler = functools.partial(Quiet, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def write_wheel(
    folder: Path, name: str, version: str, *, content: str, build: str = "", tag: str = "py3-none-any"
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    name = name.replace("-", "_")
    info = f"{name}-{version}.dist-info"
    files = {
        "origin.txt": content,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nProvides-Extra: gke\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    rows = [f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in files.items()]
    path = folder / f"{name}-{version}-{build}{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in {**files, f"{info}/RECORD": "".join(rows) + f"{info}/RECORD,,\n"}.items():
            archive.writestr(member, text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def pip_install(
    project: Path, requirements: str, index: str, *options: str
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The real pip in the project with that index alone, and where it installs to."""
    target = project.parent / "installed"
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir"]
    command += ["--index-url", index, "--target", str(target), *options, "-r", requirements]
    environment = {"PATH": os.environ["PATH"], "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    return done, target / "origin.txt"


def test_a_wheel_of_the_same_name_and_version_in_an_index_is_not_installed(project: Path, index: str) -> None:
    done, origin = pip_install(project, "requirements.txt", index, "--upgrade")
    assert done.returncode == 0, done.stderr
    assert origin.read_text(encoding="utf-8") == "ours"


def test_the_validation_in_ci_installs_the_same_wheel(project: Path, index: str) -> None:
    workflow = (project / ".github/workflows/muster-preview.yml").read_text(encoding="utf-8")
    (step,) = {line.strip() for line in workflow.splitlines() if line.endswith(">validate.txt")}
    subprocess.run(["bash", "-euo", "pipefail", "-c", step], cwd=project, timeout=TIMEOUT, check=True)
    assert NAME not in (project / "validate.txt").read_text(encoding="utf-8")
    done, origin = pip_install(project, "validate.txt", index)
    assert done.returncode == 0, done.stderr
    assert origin.read_text(encoding="utf-8") == "ours"


@pytest.mark.parametrize(
    ("with_foreign", "words"), [(False, "No such file"), (True, "DO NOT MATCH THE HASHES")]
)
def test_without_its_own_wheel_the_project_installs_nothing(
    project: Path, index: str, tmp_path: Path, with_foreign: bool, words: str
) -> None:
    (project / "wheels" / FILE).unlink()
    if with_foreign:
        write_wheel(project / "wheels", NAME, version(), content="foreign")
    done, origin = pip_install(project, "requirements.txt", index)
    assert done.returncode != 0
    assert words in done.stderr
    assert not origin.exists()


def test_wheel_of_the_installation_goes_into_the_project(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "project"
    assert main(["init", str(folder)]) == 0
    assert (folder / "wheels" / FILE).read_bytes() == wheel.read_bytes()
    assert f"wrote {folder / 'wheels' / FILE}" in capsys.readouterr().out


def test_wheel_that_the_project_has_already_stays_and_its_digest_is_recorded(
    wheel: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    kept = write_wheel(folder / "wheels", NAME, version(), content="theirs")
    before = kept.read_bytes()
    assert main(["init", str(folder)]) == 0
    assert kept.read_bytes() == before
    assert hashlib.sha256(before).hexdigest() in (folder / "requirements.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [["--force"], ["--update", "--write"]])
def test_wheel_of_the_installation_replaces_another_build_where_files_are_replaced(
    options: Sequence[str], project: Path, wheel: Path
) -> None:
    write_wheel(wheel.parent, NAME, version(), content="a later build")
    assert main(["init", *options, str(project)]) == 0
    assert (project / "wheels" / FILE).read_bytes() == wheel.read_bytes()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert f"#sha256={digest}\n" in (project / "requirements.txt").read_text(encoding="utf-8")


def test_wheel_of_a_project_is_found_from_its_environment(
    project: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What pip 23 to 26 record of `file:./wheels/FILE`.
    recorded.write_text(json.dumps({"archive_info": {}, "url": f"file:///./wheels/{FILE}"}), encoding="utf-8")
    monkeypatch.setattr(sys, "prefix", str(project / ".venv"))
    assert installed_wheel(version()) == project / "wheels" / FILE


def test_another_version_is_not_taken(wheel: Path) -> None:
    assert installed_wheel("99.0.0") is None


@pytest.mark.parametrize(
    "content",
    [
        None,
        {"url": "file:///a/checkout", "dir_info": {"editable": True}},
        {"url": f"https://example.org/{FILE}", "archive_info": {}},
        {"url": f"file:///gone/{FILE}", "archive_info": {}},
    ],
    ids=["from an index", "a checkout", "from the web", "deleted"],
)
def test_where_there_is_no_file_the_user_learns_where_to_put_it(
    content: object, recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        recorded.write_text(json.dumps(content), encoding="utf-8")
    folder = tmp_path / "project"
    assert main(["init", str(folder), "--provider", "gke"]) == 0
    assert f"{folder / 'wheels' / FILE}, and record its digest" in capsys.readouterr().err
    made = write_wheel(folder / "wheels", NAME, version(), content="ours")
    assert main(["init", "--update", "--write", str(folder)]) == 0
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    assert f"#sha256={digest}\n" in (folder / "requirements.txt").read_text(encoding="utf-8")


def test_hint_for_an_extra_names_the_interpreter_and_the_recorded_wheel(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "_CHECKOUT", tmp_path / "none")
    assert install_command("check,local") == f"{sys.executable} -m pip install '{wheel}[check,local]'"
    wheel.unlink()
    assert install_command("gke") == f"{sys.executable} -m pip install '{NAME}[gke]=={version()}'"
