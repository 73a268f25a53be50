"""The GitHub Action and the GitLab component of the queue report, run as their forges run them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.unit.preview.preview_world import ROOT, commit, git, schema_errors

ACTION: Final = ROOT / ".github" / "actions" / "queue-report" / "action.yml"
COMPONENT: Final = ROOT / "templates" / "queue-report.yml"
_QUEUE: Final = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec:
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
"""
# A virtual environment whose `pip` writes down what it installs, and whose `muster` is this checkout's.
_PYTHON: Final = """\
#!/bin/sh -e
test "$1 $2" = "-m venv"
mkdir -p "$3/bin"
printf '#!/bin/sh\\nfor last; do :; done; echo "$last" > "$INSTALLED"\\n' > "$3/bin/pip"
printf '#!/bin/sh\\nexec "$PYTHON" -m muster "$@"\\n' > "$3/bin/muster"
chmod +x "$3/bin/pip" "$3/bin/muster"
"""


@dataclass(frozen=True, slots=True)
class Forge:
    """A runner in a repository whose last commit takes two GPUs from a queue."""

    folder: Path

    @property
    def installed(self) -> Path:
        return Path((self.folder / "installed").read_text().strip())

    def run(self, script: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHON": sys.executable,
            "INSTALLED": str(self.folder / "installed"),
            **variables,
        }
        return subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self.folder / "work",
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    found = Forge(tmp_path)
    queues = tmp_path / "work" / "queues"
    queues.mkdir(parents=True)
    (queues / "queue.yaml").write_text(_QUEUE)
    commit(tmp_path / "work")
    (queues / "queue.yaml").write_text(_QUEUE.replace("nominalQuota: 8", "nominalQuota: 6"))
    git(tmp_path / "work", "commit", "-q", "-a", "-m", "less")
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(_PYTHON)
    python.chmod(0o755)
    return found


def _filled(text: str, marks: str, declared: Mapping[str, Any], given: Mapping[str, str]) -> str:
    """The text with the inputs where the forge puts them; an input without a default has to be given."""
    for name, options in declared.items():
        text = text.replace(marks.format(name), given.get(name) or options["default"])
    return text


def _action(forge: Forge, **given: str) -> subprocess.CompletedProcess[str]:
    action = yaml.safe_load(ACTION.read_text())
    (step,) = action["runs"]["steps"]
    values = {
        name: _filled(value, "${{{{ inputs.{} }}}}", action["inputs"], given)
        for name, value in step["env"].items()
    }
    runner = {
        "RUNNER_TEMP": str(forge.folder / "temp"),
        "GITHUB_ACTION_PATH": str(ACTION.parent),
        "GITHUB_STEP_SUMMARY": str(forge.folder / "summary.md"),
    }
    return forge.run(step["run"], {**values, **runner})


def _component(forge: Forge, **given: str) -> subprocess.CompletedProcess[str]:
    header, jobs = COMPONENT.read_text().split("---\n")
    declared = yaml.safe_load(header)["spec"]["inputs"]
    job = yaml.safe_load(_filled(jobs, "$[[ inputs.{} ]]", declared, given))["queue-report"]
    variables = {name: str(value) for name, value in job["variables"].items()}
    base = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": git(forge.folder / "work", "rev-parse", "HEAD^")}
    return forge.run("\n".join(job["script"]), {**variables, **base})


def test_the_action_writes_the_report_into_the_summary(forge: Forge) -> None:
    done = _action(forge, manifests="queues")
    assert done.returncode == 0, done.stderr
    assert "**`vision` -2 H100**" in (forge.folder / "summary.md").read_text()
    assert forge.installed.resolve() == ROOT


def test_a_loss_fails_the_action_after_the_report(forge: Forge) -> None:
    done = _action(forge, manifests="queues", **{"fail-on": "loss"})
    assert done.returncode == 1
    assert "team vision loses 2 GPU" in done.stderr
    assert "**`vision` -2 H100**" in (forge.folder / "summary.md").read_text()


def test_the_component_writes_a_log_and_a_page(forge: Forge) -> None:
    done = _component(forge, manifests="queues", wheel="wheels/muster.whl", image="python")
    assert done.returncode == 0, done.stderr
    assert "**`vision` -2 H100**" in done.stdout
    assert "vision" in (forge.folder / "work" / "report.html").read_text()
    assert str(forge.installed) == "wheels/muster.whl"


def test_an_input_is_no_code_of_the_script(forge: Forge) -> None:
    for run in (_action, _component):
        done = run(forge, manifests="$(touch stolen)", wheel="x", image="x")
        assert done.returncode == 2
        assert not (forge.folder / "work" / "stolen").exists()


@pytest.mark.parametrize(
    ("file", "schema"), [(ACTION, "github-actions"), (COMPONENT, "gitlab-ci")], ids=["action", "component"]
)
def test_both_keep_to_the_schemas_of_their_forges(file: Path, schema: str, tmp_path: Path) -> None:
    checked = tmp_path / "checked.yml"
    # The schema of a pipeline is that of what follows the component's inputs.
    checked.write_text(file.read_text().rpartition("---\n")[2])
    assert schema_errors(schema, checked) == ""
