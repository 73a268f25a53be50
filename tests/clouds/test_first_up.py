"""The tutorials of a first cluster, typed: every block of the pages that names this file, in its order.

The clouds are stand-ins. What needs an account of a real one has its own tests, and here its result: the
backend is a folder, the images have digests, and the project runs with the environment of the tests.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from muster import config
from tests import built
from tests.clouds.cluster import Standing
from tests.clouds.engine import ROOT, Workspace, workspace
from tests.clouds.stack_files import completed
from tests.clouds.standin.serve import Clouds
from tests.unit.docs.blocks import Block, blocks

_PAGES: Final = ROOT / "docs" / "runbooks"
_HERE: Final = str(Path(__file__).relative_to(ROOT))
_STACK: Final = "prod"
_TIMEOUT: Final = 900
# What the reader of a page writes in the place of its words.
_READERS: Final = {"PROJECT": "ml-1234", "ADDRESS": "100.20.30.40"}


@dataclass(slots=True)
class Reader:
    """Types a page. `folder`: where the terminal is; `engine`: from `pulumi stack init` on."""

    folder: Path
    clouds: Clouds
    cluster: Standing
    charts: Path
    environment: dict[str, str]
    engine: Workspace | None = None

    @property
    def stack(self) -> Path:
        return self.folder / "stacks" / f"Pulumi.{_STACK}.yaml"

    def type(self, block: Block) -> str:
        """What the block printed."""
        text = block.text
        for word, own in _READERS.items():
            text = text.replace(word, own)
        if block.language == "yaml":
            (self.folder / "job.yaml").write_text(text, encoding="utf-8")
            return ""
        return "".join(self._line(line) for line in _lines(text))

    def _line(self, line: str) -> str:
        for beginning, instead in _INSTEAD.items():
            if line.startswith(beginning):
                return instead(self, line)
        return self._shell(line)

    def _shell(self, line: str) -> str:
        ran = subprocess.run(
            ("bash", "-e", "-o", "pipefail", "-c", line),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        print(f"$ {line}\n{ran.stdout}", flush=True)
        assert ran.returncode == 0, f"{line}: exit code {ran.returncode}\n{ran.stdout}"
        return ran.stdout

    def _init_project(self, line: str) -> str:
        return self._shell(line.replace("~/muster/bin/muster", "muster"))

    def _change_folder(self, line: str) -> str:
        self.folder /= line.removeprefix("cd ")
        return ""

    def _make_environment(self, _: str) -> str:
        (self.folder / ".venv").symlink_to(ROOT / ".venv")
        return ""

    def _export(self, line: str) -> str:
        name, _, value = line.removeprefix("export ").partition("=")
        given = {**self.environment, "PWD": str(self.folder)}
        self.environment[name] = re.sub(r"\$(\w+)", lambda found: given[found[1]], value)
        return ""

    def _init_stack(self, _: str) -> str:
        self.engine = workspace(self.folder.parent / "pulumi", self.folder, _STACK, self.environment)
        self.engine.environment |= self.cluster.handed.environment(
            self.folder.parent, self.engine.environment["PATH"]
        )
        self.environment = self.engine.environment
        return ""

    def _pin(self, _: str) -> str:
        completed(self.stack, self.stack, self.charts)
        return ""

    def _update(self, line: str) -> str:
        """The stack is named by the workspace, and a terminal would ask before it goes on."""
        assert self.engine is not None
        program, update, *options = line.split()
        assert (program, options[:2]) == ("pulumi", ["-s", _STACK])
        asks = () if update == "preview" else ("--yes",)
        return self.engine.run(update, *options[2:], *asks).output

    def _nothing(self, _: str) -> str:
        return ""


_INSTEAD: Final[dict[str, Callable[[Reader, str], str]]] = {
    "~/muster/bin/muster init": Reader._init_project,
    "cd ": Reader._change_folder,
    "export ": Reader._export,
    "python3 -m venv": Reader._make_environment,
    # tests/integration/package installs a project.
    ".venv/bin/pip install": Reader._nothing,
    # tests/unit/cloud/test_backend.py compares what it prints with the page.
    "muster backend create": Reader._nothing,
    "pulumi login": Reader._nothing,
    "pulumi stack init": Reader._init_stack,
    # test_image_step.py makes the repository.
    "muster image push": Reader._nothing,
    "muster image pin": Reader._pin,
    # tests/unit/doctor.
    "muster doctor": Reader._nothing,
    "pulumi preview": Reader._update,
    "pulumi up": Reader._update,
    "pulumi destroy": Reader._update,
}


def _lines(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        command = re.sub(r"(^|\s+)#.*", "", line).strip()
        if command:
            yield command


@pytest.fixture
def reader(clouds: Clouds, cluster: Standing, charts: Path, tmp_path: Path) -> Reader:
    cluster.handed.to(clouds)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {
        **os.environ,
        **clouds.environment,
        "PATH": f"{built.tools()}:{path}",
        "HOME": str(tmp_path),
    }
    return Reader(tmp_path, clouds, cluster, charts, environment)


@pytest.mark.parametrize("provider", ["gke", "eks"])
def test_the_page_leads_from_nothing_to_a_job_in_a_queue_and_back(provider: str, reader: Reader) -> None:
    page = _PAGES / f"first-up-{provider}.md"
    typed = [each for each in blocks(page) if each.mark and each.mark.value == _HERE]
    printed = ""
    for block in typed:
        if block.language == "text":
            assert [line for line in block.text.splitlines() if line not in printed] == []
        else:
            printed = reader.type(block)
            _look(reader, block)
    assert not reader.clouds.gcp.standing
    assert not reader.clouds.aws.standing
    assert reader.engine is not None
    assert reader.engine.state() == []


def _look(reader: Reader, block: Block) -> None:
    """What is there after the block, beyond its exit code."""
    if "pulumi up" in block.text and "destroy" not in block.text:
        assert reader.engine is not None
        outputs = json.loads(reader.engine.cli("stack", "output", "--json", "--stack", _STACK))
        listed = (ROOT / "docs" / "reference" / "outputs.md").read_text(encoding="utf-8")
        assert [name for name in outputs if f"- `{name}`" not in listed] == []
        teams = {team.name for _, team in config.load(reader.stack).teams()}
        assert outputs["teams"].keys() == teams
    if "kubectl create" in block.text:
        found = reader.cluster.objects("/apis/kueue.x-k8s.io/v1beta2/workloads")
        assert [name for name in found if name.startswith("team-a/job-first")]
