"""docs/restore.md, for the queues of a stack: an older state of Pulumi is put back; a cluster is gone. The
cloud half is in tests/clouds/test_failures.py.
"""

from pathlib import Path
from typing import Final

import pytest

from tests import built, envtest
from tests.clouds.engine import ROOT, Run, Workspace, workspace
from tests.envtest.kueue import definitions
from tests.integration.library.world import EXAMPLES, KUEUE, Cluster

_NEEDED: Final = ("etcd", "kube-apiserver", "kube-controller-manager")
_BEFORE: Final = "team-b: {quota: {l4: 4}}"
_AFTER: Final = "team-b: {quota: {l4: 2}}\n        team-c: {quota: {l4: 2}}"
_KINDS: Final = ("/api/v1/namespaces", f"{KUEUE}/clusterqueues", f"{KUEUE}/localqueues")


@pytest.fixture
def teams(tmp_path: Path) -> Path:
    """A stack file of two teams."""
    file = tmp_path / "teams.yaml"
    file.write_text((EXAMPLES / "queues-alone" / "teams.yaml").read_text())
    return file


@pytest.fixture
def made(teams: Path, tmp_path: Path) -> Workspace:
    """The queues of `teams`, for the cluster of the file `kubeconfig`."""
    environment = {
        "SWITCH_STACK": str(teams),
        "SWITCH_KUBECONFIG": str(tmp_path / "kubeconfig"),
        "PYTHONPATH": str(ROOT),
    }
    return workspace(tmp_path / "engine", ROOT / "tests/integration/kai/program", "switch", environment)


def test_an_older_state_takes_over_the_queues_that_were_made_since(
    cluster: Cluster, teams: Path, made: Workspace, tmp_path: Path
) -> None:
    """Without an import: nothing that is in the cluster is made anew."""
    (tmp_path / "kubeconfig").write_text(cluster.plane.kubeconfig().read_text())
    made.up()
    older = made.state_file.read_bytes()
    teams.write_text(teams.read_text().replace(_BEFORE, _AFTER))
    changes = _changes(made.up())
    assert ("create", "team-c") in changes
    before = _uids(cluster)
    made.state_file.write_bytes(older)

    made.run("refresh", "--preview-only", "--diff")
    assert _changes(made.preview()) == changes
    made.up()
    assert _uids(cluster) == before
    made.up("--refresh", "--expect-no-changes")
    made.destroy()


def test_the_queues_of_a_cluster_that_is_gone_are_made_in_the_new_one(
    cluster: Cluster, made: Workspace, tmp_path: Path
) -> None:
    """They are forgotten with their provider. The context names the new cluster from then on."""
    kubeconfig = tmp_path / "kubeconfig"
    programs = built.programs(_NEEDED, ("kueue-crds", "provisioningrequest-crd"))
    (tmp_path / "gone").mkdir()
    with envtest.control_plane(tmp_path / "gone", programs, kinds=definitions(programs)) as gone:
        kubeconfig.write_text(gone.kubeconfig().read_text())
        with envtest.controllers(gone, programs, ("resourcequota-controller",)):
            made.up()
    kubeconfig.write_text(cluster.plane.kubeconfig().read_text())
    assert not cluster.queues()

    (provider,) = (each["urn"] for each in made.state() if each["type"] == "pulumi:providers:muster")
    assert provider in made.cli("stack", "--show-urns", "--stack", made.stack)
    made.cli("state", "delete", provider, "--target-dependents", "--force", "--yes", "--stack", made.stack)
    assert not [each for each in made.state() if each["type"] == "muster:k8s:Bundle"]
    assert {op for op, _ in _changes(made.preview())} == {"create"}

    made.up()
    assert cluster.queues() == {"team-a", "team-b"}
    made.up("--refresh", "--expect-no-changes")
    made.destroy()
    assert not cluster.queues()


def _changes(run: Run) -> set[tuple[str, str]]:
    return {(step.op, step.name) for step in run.changes}


def _uids(cluster: Cluster) -> dict[str, set[str]]:
    return {
        kind: {each["metadata"]["uid"] for each in cluster.plane.call("GET", kind)["items"]}
        for kind in _KINDS
    }
