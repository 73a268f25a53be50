"""The examples of examples/library, applied by the real engine to a real API server with the real Kueue."""

import json
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.clouds.charts import offline
from tests.clouds.engine import ROOT, checkout, workspace
from tests.integration.library.world import EXAMPLES, KUEUE, Cluster, Engine, configure
from tests.last_build import last_build

_IMAGE: Final = f"registry.test/gang-admission@sha256:{'ab' * 32}"


def test_queues_alone_go_into_a_cluster_of_another_program(cluster: Cluster, engine: Engine) -> None:
    kubeconfig = cluster.folder / "other-program"
    kubeconfig.write_text(cluster.kubeconfig("shared"))
    other = engine("cluster", CLUSTER_KUBECONFIG=str(kubeconfig), CLUSTER_CONTEXT="shared")
    other.up()
    ours = engine("queues-alone", state=other.folder / "state")
    configure(ours, clusterStack="organization/cluster/test")
    ours.preview()
    assert not cluster.queues()

    ours.up()
    assert cluster.queues() == {"team-a", "team-b"}
    assert json.loads(ours.cli("stack", "output", "--json", "--stack", ours.stack)) == {
        "queueNames": {"team-a": "team-a", "team-b": "team-b"}
    }
    ours.preview("--expect-no-changes")
    ours.destroy()
    assert not cluster.queues()


def test_own_objects_come_after_the_queues_and_go_before_them(cluster: Cluster, engine: Engine) -> None:
    made = engine("own-objects")
    configure(made, kubeconfig=cluster.kubeconfig("shared"))
    created = [step.name for step in made.up().changes if step.op == "create"]
    assert created.index("team-a") < created.index("nightly")
    assert "nightly" in cluster.names(f"{KUEUE}/localqueues")
    deleted = [step.name for step in made.destroy().changes if step.op == "delete"]
    assert deleted.index("nightly") < deleted.index("team-a")


def test_the_state_of_the_last_build_previews_with_what_this_build_adds(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The queues of its program, applied by its own code; each team gets a PodDisruptionBudget."""
    kubeconfig = cluster.plane.kubeconfig()
    environment = {
        "SWITCH_STACK": str(EXAMPLES / "queues-alone" / "teams.yaml"),
        "SWITCH_KUBECONFIG": str(kubeconfig),
    }
    before = last_build(tmp_path / "before")
    program = Path("tests/integration/kai/program")
    made = workspace(
        tmp_path / "engine", before / program, "switch", {**environment, "PYTHONPATH": str(before)}
    )
    made.up()
    made.project = ROOT / program
    made.environment["PYTHONPATH"] = str(ROOT)
    changes = {(step.op, step.name) for step in made.preview().changes}
    assert changes == {("update", "team-a"), ("update", "team-b")}
    made.destroy()


def test_what_a_person_deleted_is_put_back_by_the_next_up(cluster: Cluster, tmp_path: Path) -> None:
    """A team's namespace with all that is in it, and a flavor that Kueue holds while queues name it."""
    kubeconfig = cluster.plane.kubeconfig()
    environment = {
        "SWITCH_STACK": str(EXAMPLES / "queues-alone" / "teams.yaml"),
        "SWITCH_KUBECONFIG": str(kubeconfig),
        "PYTHONPATH": str(ROOT),
    }
    made = workspace(tmp_path / "engine", ROOT / "tests/integration/kai/program", "switch", environment)
    made.up()
    space, flavor = "/api/v1/namespaces/team-a", f"{KUEUE}/resourceflavors/l4"
    before = {path: cluster.plane.call("GET", path)["metadata"]["uid"] for path in (space, flavor)}
    for path in before:
        cluster.plane.call("DELETE", path)

    previewed = made.preview()
    assert "no longer in the cluster: Namespace team-a" in previewed.output
    assert {(step.op, step.name) for step in previewed.changes} == {
        ("update", "team-a"),
        ("update", "queues-flavors"),
    }
    made.up()
    for path, uid in before.items():
        found = cluster.plane.call("GET", path)["metadata"]
        assert found["uid"] != uid
        assert "deletionTimestamp" not in found
    assert "default" in cluster.names(f"{KUEUE}/namespaces/team-a/localqueues")
    made.up("--expect-no-changes")
    made.destroy()


def test_two_platforms_in_one_program_do_not_collide(
    cluster: Cluster, engine: Engine, tmp_path: Path
) -> None:
    made = engine("two-platforms")
    charts = offline(tmp_path)
    for name in ("research", "production"):
        file = made.project / f"{name}.yaml"
        described = yaml.safe_load(file.read_text())
        described["config"] |= {"muster:image": _IMAGE, "muster:charts": {"path": str(charts)}}
        file.write_text(yaml.safe_dump(described))
        configure(made, **{f"{name}Kubeconfig": cluster.kubeconfig(name)})

    created = [(step.type, step.name) for step in made.preview().changes if step.op == "create"]
    assert len(created) == len(set(created))
    teams = {name for type_, name in created if type_ == "muster:k8s:Bundle" and name.endswith("team-a")}
    assert teams == {"research-queues-team-a", "production-queues-team-a"}
    installed = {name for type_, name in created if type_ == "kubernetes:helm.sh/v3:Release"}
    assert {"research-kueue", "production-kueue"} <= installed


@pytest.mark.parametrize(
    ("stack", "teams"),
    [
        ("on-premises/stacks/Pulumi.datacenter.yaml", {"vision", "speech", "ranking"}),
        ("forty-teams/stacks/Pulumi.company.yaml", {"pretraining", "continuous-integration", "university"}),
    ],
)
def test_an_existing_cluster_is_previewed_whole(
    cluster: Cluster, tmp_path: Path, stack: str, teams: set[str]
) -> None:
    """The program with its policy pack, on the cluster's own API."""
    example = ROOT / "examples" / stack
    name = example.stem.removeprefix("Pulumi.")
    described = yaml.safe_load(example.read_text())
    described["config"] |= {
        "muster:image": _IMAGE,
        "muster:images": {name: f"registry.test/{name}@sha256:{'ab' * 32}" for name in ("kueue", "kuberay")},
        "muster:charts": {"path": str(offline(tmp_path / "charts"))},
    }
    file = tmp_path / example.name
    file.write_text(yaml.safe_dump(described))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig(name))
    project = checkout(tmp_path / "project", file)
    made = workspace(tmp_path / "engine", project, name, {"KUBECONFIG": str(kubeconfig)})
    run = made.preview("--policy-pack", str(ROOT / "policies"))
    assert "muster@v" in run.output
    created = {step.name for step in run.changes if step.op == "create"}
    assert {"queues-flavors", *teams} <= created
