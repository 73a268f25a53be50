"""A cluster that runs Kueue becomes a stack, and `pulumi up` takes its objects over while work runs."""

import json
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.adopt.adoption import Adoption, adopt
from muster.adopt.compare import Fate
from muster.cli import main
from muster.config.document import parse_text
from muster.config.stack import examine
from muster.errors import MusterError
from muster.model.stack import Stack
from muster.provider.manifests import same_meaning
from muster.render.manifest import MANAGED_BY_LABEL
from tests import built
from tests.clouds.engine import ROOT, Run, Workspace, workspace
from tests.integration.adopt.shapes import SHAPES, TREE
from tests.integration.adopt.world import JOBS, KUEUE, World, adopter, submit
from tests.kai.definitions import data
from tests.unit.docs.blocks import blocks
from tests.unit.docs.commands import commands, typed

_HERE: Final = str(Path(__file__).relative_to(ROOT))
CLUSTER: Final = {"name": "bare", "context": "bare"}
# Queues of Kueue's documentation. The rest of its samples are jobs, or parts that name what is not there.
_SAMPLES: Final = (
    "admin/single-clusterqueue-setup.yaml",
    "admin/concurrent-admission-setup.yaml",
    "admin/shared-quota-setup.yaml",
    "admission-fs/admission-fair-sharing-setup.yaml",
    "provisioning/provisioning-setup.yaml",
    "serving-workloads/sample-hami.yaml",
    "tas/sample-gpu-queues.yaml",
    "tas/sample-queues.yaml",
)
# The samples have work as well; only Kueue's own kinds and their namespaces are applied.
_QUEUES: Final = "kueue.x-k8s.io"


def _samples() -> list[Path]:
    folder = data("samples")
    return [] if folder is None else [folder / "kueue" / each for each in _SAMPLES]


def _queues_of(path: Path) -> list[dict[str, Any]]:
    found = [each for each in yaml.safe_load_all(path.read_text()) if each]
    wanted = [each for each in found if each["apiVersion"].startswith(_QUEUES) or each["kind"] == "Namespace"]
    return sorted(wanted, key=lambda each: each["kind"] != "Namespace")


def _stack(adopted: Adoption) -> Stack:
    stack, found = examine(parse_text(adopted.text, source="Pulumi.adopted.yaml"))
    assert stack is not None
    assert [each for each in found if each.level == "error"] == []
    return stack


def _taken_over(world: World, adopted: Adoption) -> None:
    """The provider applies the stack: every object is the same one, with the same meaning."""
    before = world.live()
    assert world.take_over(_stack(adopted)).failures == ()
    after = world.live()
    for path, one in before.items():
        two = after[path]
        assert two["metadata"]["uid"] == one["metadata"]["uid"], path
        assert "deletionTimestamp" not in two["metadata"], path
        assert two["metadata"]["labels"][MANAGED_BY_LABEL] == "muster", path
        if "spec" in one:
            kept = {key: two["spec"].get(key) for key in one["spec"]}
            assert same_meaning(kept, one["spec"]), path
        for key in ("value", "description"):
            assert two.get(key) == one.get(key), path


@pytest.mark.parametrize("shape", SHAPES)
def test_queues_of_a_guide_become_a_stack_that_changes_nothing(world: World, shape: str) -> None:
    world.create(SHAPES[shape])
    adopted = adopt(world.read(), CLUSTER)
    assert adopted.mistakes == ()
    assert adopted.is_exact
    _taken_over(world, adopted)


@pytest.mark.parametrize("path", _samples(), ids=lambda path: path.stem)
def test_queues_of_kueues_samples_become_a_stack_that_changes_nothing(world: World, path: Path) -> None:
    world.create(_queues_of(path))
    adopted = adopt(world.read(), CLUSTER)
    assert adopted.mistakes == ()
    assert adopted.is_exact
    _taken_over(world, adopted)


def test_the_tree_keeps_its_names_and_its_form(world: World) -> None:
    world.create(TREE)
    adopted = adopt(world.read(), CLUSTER)
    stack = _stack(adopted)
    chains = {team.name: [each.name for each in chain] for chain, team in stack.teams()}
    assert chains == {
        "vision": ["company", "research-cohort"],
        "research": ["company", "research-cohort"],
        "shared-pool": ["spare"],
    }
    assert {each.object for each in adopted.objects if each.fate is Fate.CREATED} == {"Cohort spare"}
    assert [each.object for each in adopted.findings if not each.matters and "Queue" in each.object] == [
        "ClusterQueue shared-pool"
    ]


def test_a_flavor_with_live_nodes_becomes_a_pool_and_stays_as_it_is(world: World) -> None:
    size = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}
    labels = {"cloud.google.com/gke-accelerator": "nvidia-l4", "node.kubernetes.io/instance-type": "other-8"}
    node = {"apiVersion": "v1", "kind": "Node", "status": {"capacity": size, "allocatable": size}}
    world.create({**node, "metadata": {"name": f"l4-{each}", "labels": labels}} for each in range(3))
    world.create(TREE)
    adopted = adopt(world.read(), CLUSTER)
    assert adopted.is_exact
    (pool,) = _stack(adopted).pools
    assert (pool.flavor, pool.max_nodes, pool.gpus_per_node, pool.machine.cpu) == ("gpu-l4", 3, 1, 8000)
    assert adopted.effects is not None
    assert (adopted.effects.queues, adopted.effects.pools) == (3, 1)
    _taken_over(world, adopted)


def test_what_no_stack_can_express_is_named_and_stays(world: World, tmp_path: Path) -> None:
    world.create(SHAPES["priorities"])
    path = f"{KUEUE}/clusterqueues/cluster-queue"
    weight = {"spec": {"fairSharing": {"weight": "500m"}}}
    world.plane.call("PATCH", path, weight, content_type="application/merge-patch+json")
    adopted = adopt(world.read(), CLUSTER)
    assert not adopted.is_exact
    (lost,) = [each for each in adopted.findings if each.matters]
    assert (lost.object, lost.field) == ("ClusterQueue cluster-queue", "spec.fairSharing.weight")
    _taken_over(world, adopted)
    assert world.plane.call("GET", path)["spec"]["fairSharing"]["weight"] == "500m"


def test_what_somebody_changed_in_between_is_a_conflict_and_stays(world: World) -> None:
    world.create(SHAPES["priorities"])
    adopted = adopt(world.read(), CLUSTER)
    path = f"{KUEUE}/clusterqueues/cluster-queue"
    changed = {"spec": {"queueingStrategy": "StrictFIFO"}}
    world.plane.call(
        "PATCH", f"{path}?fieldManager=kubectl-edit", changed, content_type="application/merge-patch+json"
    )
    (failure,) = world.take_over(_stack(adopted)).failures
    assert "ClusterQueue cluster-queue" in failure
    assert "kubectl-edit" in failure
    found = world.plane.call("GET", path)
    assert found["spec"]["queueingStrategy"] == "StrictFIFO"
    assert MANAGED_BY_LABEL not in (found["metadata"].get("labels") or {})


def test_a_cluster_of_musters_is_not_adopted_again(world: World) -> None:
    world.create(SHAPES["priorities"])
    world.take_over(_stack(adopt(world.read(), CLUSTER)))
    with pytest.raises(MusterError, match="is a Muster stack's already"):
        adopt(world.read(), CLUSTER)


def test_the_command_writes_a_file_once_and_reports(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.create(SHAPES["priorities"])
    file, kubeconfig = tmp_path / "Pulumi.prod.yaml", str(world.plane.kubeconfig())
    options = ["adopt", "--kubeconfig", kubeconfig, "--out", str(file)]
    assert main(options) == 0
    assert "Nothing changes for anyone: 5 objects" in capsys.readouterr().out
    assert main(["validate", str(file)]) == 0
    file.write_text("mine")
    assert main(options) == 2
    assert file.read_text() == "mine"
    assert main([*options, "--force", "--json"]) == 0
    capsys_out = capsys.readouterr().out
    assert json.loads(capsys_out[capsys_out.index("{") :])["isExact"] is True
    assert file.read_text() != "mine"


@dataclass(slots=True)
class Reader:
    """Types the tutorial: `folder` is the project, and the engine's program holds the queues alone."""

    folder: Path
    kubeconfig: Path
    capture: pytest.CaptureFixture[str]
    runs: list[Run] = field(default_factory=list)
    _engine: Workspace | None = None

    def type(self, words: list[str]) -> str:
        """What the command printed."""
        match words:
            case ["muster", *arguments]:
                assert main(arguments) == 0
                return self.capture.readouterr().out
            case ["pulumi", "stack", "init", name]:
                program = ROOT / "tests/integration/kai/program"
                self._engine = workspace(
                    self.folder.parent / "engine", program, "switch", self._environment(name)
                )
            case ["pulumi", "preview" | "up" as verb, "-s", _]:
                assert self._engine is not None
                asks = ("--yes", "--skip-preview") if verb == "up" else ()
                self.runs.append(self._engine.run(verb, *asks))
            case _:
                subprocess.run(words, cwd=self.folder, check=True, timeout=60)
        return ""

    def _environment(self, name: str) -> dict[str, str]:
        file = self.folder / "stacks" / f"Pulumi.{name}.yaml"
        given = {"SWITCH_STACK": str(file), "SWITCH_KUBECONFIG": str(self.kubeconfig)}
        return {**given, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def reader(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Reader:
    built.tools()
    project = tmp_path / "project"
    (project / "stacks").mkdir(parents=True)
    shutil.copy(ROOT / "Pulumi.yaml", project)
    subprocess.run(("git", "init", "--quiet"), cwd=project, check=True, timeout=60)
    kubeconfig = world.plane.kubeconfig()
    # The context that the page names.
    named = kubeconfig.read_text().replace("current-context: bare", "current-context: prod")
    (tmp_path / "kubeconfig").write_text(named.replace("  name: bare\ncurrent", "  name: prod\ncurrent"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.chdir(project)
    return Reader(project, kubeconfig, capsys)


def test_the_page_takes_the_queues_over_while_work_runs(world: World, reader: Reader) -> None:
    """Its blocks, typed: after them everything is the object that it was."""
    world.create(SHAPES["priorities"])
    workload = submit(world)
    running, before = world.plane.call("GET", workload), world.live()
    for block in blocks(ROOT / "docs" / "adopt.md"):
        if block.mark is not None and block.mark.value == _HERE:
            is_console = block.language == "console"
            for line, shown in typed(block.text) if is_console else [(block.text, "")]:
                printed = "".join(map(reader.type, commands(line)))
                assert [each for each in shown.splitlines() if each not in printed] == []
    previewed, applied = reader.runs
    assert {step.op for step in [*previewed.changes, *applied.changes]} == {"create"}

    after = world.live()
    assert {path: each["metadata"]["uid"] for path, each in after.items()} == {
        path: each["metadata"]["uid"] for path, each in before.items()
    }
    assert {path: each.get("spec") for path, each in after.items()} == {
        path: each.get("spec") for path, each in before.items()
    }
    now = world.plane.call("GET", workload)
    assert now["metadata"]["uid"] == running["metadata"]["uid"]
    assert now["status"]["conditions"] == running["status"]["conditions"]
    assert world.plane.call("GET", f"{JOBS}/runs")["spec"]["suspend"] is False


def test_adoption_needs_the_rights_that_its_page_lists_and_no_more(world: World, tmp_path: Path) -> None:
    world.create(SHAPES["priorities"])
    kubeconfig = adopter(world.plane)
    assert main(["adopt", "--kubeconfig", str(kubeconfig), "--out", str(tmp_path / "Pulumi.a.yaml")]) == 0
