"""One line of a stack changes its scheduler: the real engine, a real API server, the real Kueue."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from muster.config import load
from muster.render import kueue
from tests import built, envtest
from tests.clouds.engine import ROOT, Run, Workspace, workspace
from tests.envtest import ControlPlane
from tests.envtest.kueue import definitions
from tests.kai.definitions import ours

_CHART: Final = "kueue-chart"
_NEEDED: Final = (
    ("etcd", "kube-apiserver", "kube-controller-manager", "kueue"),
    ("kueue-crds", "provisioningrequest-crd", _CHART),
)
_PROGRAM: Final = Path(__file__).with_name("program")
_STACK: Final = """\
config:
  muster:cluster: {provider: existing, name: c, context: c}
  muster:pools:
    cpu: {machine: e2-standard-8, maxNodes: 4}
    l4: {machine: g2-standard-8, maxNodes: 8}
  muster:scheduler: kueue
  muster:priorities: {prod: 90, dev: 10}
  muster:departments:
    research:
      teams:
        team-a: {quota: {l4: 4}, borrow: {l4: 2}, weight: 2}
        team-b: {quota: {l4: 4}, lend: {l4: 4}}
"""
_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_QUEUES: Final = "/apis/scheduling.run.ai/v2/queues"


@dataclass(slots=True)
class _Cluster:
    plane: ControlPlane
    pulumi: Workspace
    file: Path

    def up(self, *changes: tuple[str, str]) -> Run:
        """Changes lines of the stack, and applies it."""
        text = self.file.read_text()
        for old, new in changes:
            assert text.count(old) == 1
            text = text.replace(old, new)
        self.file.write_text(text)
        return self.pulumi.up()

    def there(self, path: str) -> dict[str, Any]:
        return {each["metadata"]["name"]: each for each in self.plane.call("GET", path)["items"]}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Cluster]:
    programs = built.programs(*_NEEDED)
    built.tools()
    folder = tmp_path_factory.mktemp("switch")
    file = folder / "stack.yaml"
    file.write_text(_STACK)
    (folder / "plane").mkdir()
    kinds = [*definitions(programs), *ours().values()]
    with envtest.control_plane(folder / "plane", programs, kinds=kinds) as plane:
        config = kueue.manager_config(load(file))
        with (
            envtest.controllers(plane, programs, ("resourcequota-controller",)),
            envtest.kueue(plane, programs, config=config, chart=programs.assets[_CHART]),
        ):
            environment = {
                "SWITCH_STACK": str(file),
                "SWITCH_KUBECONFIG": str(plane.kubeconfig()),
                "PYTHONPATH": str(ROOT),
            }
            engine = workspace(folder / "engine", _PROGRAM, "switch", environment)
            yield _Cluster(plane, engine, file)


def test_one_line_changes_the_scheduler_and_every_team_stays_the_resource_that_it_was(
    cluster: _Cluster,
) -> None:
    cluster.up()
    assert cluster.there(f"{_KUEUE}/clusterqueues").keys() == {"team-a", "team-b"}
    namespace = cluster.there("/api/v1/namespaces")["team-a"]["metadata"]["uid"]

    run = cluster.up(("muster:scheduler: kueue", "muster:scheduler: kai"))

    for kind in ("clusterqueues", "localqueues", "cohorts", "resourceflavors", "workloadpriorityclasses"):
        assert cluster.there(f"{_KUEUE}/{kind}") == {}, kind
    queues = cluster.there(_QUEUES)
    assert queues.keys() == {"research", "team-a", "team-b"}
    gpu = queues["team-a"]["spec"]["resources"]["gpu"]
    assert gpu == {"quota": 4, "limit": 6, "overQuotaWeight": 2}
    assert {step.name for step in run.of("muster:k8s:Bundle") if step.op == "update"} == {"team-a", "team-b"}
    assert cluster.there("/api/v1/namespaces")["team-a"]["metadata"]["uid"] == namespace


def test_another_value_is_another_priority_class(cluster: _Cluster) -> None:
    """The API server refuses to change one."""
    before = cluster.there(_CLASSES)["dev"]
    run = cluster.up(("dev: 10", "dev: 20"))
    after = cluster.there(_CLASSES)["dev"]
    assert (before["value"], after["value"]) == (10, 20)
    assert before["metadata"]["uid"] != after["metadata"]["uid"]
    assert {step.name for step in run.changes} == {"priorities-dev"}


def test_the_same_line_takes_the_stack_back(cluster: _Cluster) -> None:
    cluster.up(("muster:scheduler: kai", "muster:scheduler: kueue"))
    assert cluster.there(_QUEUES) == {}
    assert cluster.there(f"{_KUEUE}/clusterqueues").keys() == {"team-a", "team-b"}
    assert cluster.there(f"{_KUEUE}/workloadpriorityclasses")["dev"]["value"] == 20
