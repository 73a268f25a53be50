"""What goes wrong in a cloud: the message names the config line, the next `up` goes on from there, and what
stands in the cloud is what stands in the state.
"""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.clouds.conftest import ClusterOf
from tests.clouds.engine import Workspace
from tests.clouds.stack_files import OWN, edited
from tests.clouds.standin.cloud import Cloud, Standing
from tests.clouds.standin.faults import Fault, Ordered
from tests.clouds.standin.serve import Clouds

POOLS = {"gke": "gcp:container/nodePool:NodePool", "eks": "aws:eks/nodeGroup:NodeGroup"}
CLUSTERS = {"gke": "gcp:container/cluster:Cluster", "eks": "aws:eks/cluster:Cluster"}
# Everything of these goes with its cluster.
_WITH_CLUSTER = {"gke": ("gcp:container/",), "eks": ("aws:eks/", "aws:autoscaling/")}
_CPU = "muster:pools.cpu"
# Only what the failures are about: a system pool and one queued pool.
SMALL = {f"muster:pools.{name}": None for name in ("t4", "a100", "h100")}


@pytest.fixture(params=["gke", "eks"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cloud(name: str, clouds: Clouds) -> Cloud:
    return clouds.gcp if name == "gke" else clouds.aws


@pytest.fixture
def stack(name: str, tmp_path: Path) -> Path:
    return edited(OWN[name], tmp_path / "small.yaml", {**SMALL, "muster:cluster.protect": False})


@pytest.fixture
def workspace(stack: Path, cluster_of: ClusterOf) -> Workspace:
    return cluster_of(stack)


@pytest.mark.parametrize("fault", [Fault.QUOTA, Fault.STALL, Fault.BROKEN])
def test_a_cluster_that_comes_up_without_its_pool_says_which_line_asked_and_the_next_up_converges(
    fault: Fault, name: str, cloud: Cloud, stack: Path, workspace: Workspace
) -> None:
    pool = "l4" if name == "gke" else "a10g"
    cloud.faults.append(Ordered(fault, POOLS[name], pool))
    if fault is Fault.STALL:
        cloud.pace = 20_000  # three hours of a cloud in half a second
    failed = workspace.up(fails=True)

    assert "Traceback" not in failed.output
    told = _told(failed.output, f"every-{pool}" if name == "gke" else f"every-{pool}-us-east-1a")
    assert f"{stack}:{_line(stack, pool)}: muster:pools.{pool}" in told
    assert re.search("regional quota|VcpuLimitExceeded|timeout while|error state|CREATE_FAILED", told)
    assert cloud.of(CLUSTERS[name])
    _is_not_orphaned(cloud, workspace)

    cloud.faults.clear()
    workspace.up()
    workspace.up("--refresh", "--expect-no-changes")
    assert pool in str([each.id for each in cloud.of(POOLS[name])])
    _is_not_orphaned(cloud, workspace)


def test_a_cluster_without_quota_leaves_nothing_behind_that_the_state_does_not_know(
    name: str, cloud: Cloud, stack: Path, workspace: Workspace
) -> None:
    cloud.faults.append(Ordered(Fault.DENIED, CLUSTERS[name]))
    failed = workspace.up(fails=True)

    told = _told(failed.output, "every")
    assert f"{stack}:{_line(stack, 'cluster')}: muster:cluster" in told
    assert re.search("forbidden|AccessDenied", told)
    assert not cloud.of(CLUSTERS[name])
    _is_not_orphaned(cloud, workspace)
    workspace.destroy()
    assert not cloud.standing


def test_an_interrupted_up_lets_the_cloud_finish_and_the_next_up_converges(
    name: str, cloud: Cloud, workspace: Workspace
) -> None:
    cloud.pace = 200  # a cluster takes long enough to be interrupted
    run = workspace.interrupted(
        "up", "--yes", "--skip-preview", when=lambda: bool(cloud.of(CLUSTERS[name])), number=signal.SIGINT
    )
    assert run.code != 0
    assert "update canceled" in run.output
    assert "Traceback" not in run.output
    _is_not_orphaned(cloud, workspace)

    cloud.pace = 2_000
    workspace.up()
    workspace.up("--expect-no-changes")
    _is_not_orphaned(cloud, workspace)


# How far the cloud is when `pulumi` is killed: in the middle of the cluster, in the middle of its pools.
KILLED_AT = {"gke": (CLUSTERS["gke"], 1), "eks": (POOLS["eks"], 2)}


def test_a_killed_up_is_mended_by_what_the_runbook_says(
    name: str, clouds: Clouds, cloud: Cloud, workspace: Workspace
) -> None:
    """docs/runbooks/killed-up.md. What the cloud has is imported, but for one thing, which is deleted."""
    token, count = KILLED_AT[name]
    cloud.pace = 50
    killed = workspace.interrupted(
        "up", "--yes", "--skip-preview", when=lambda: len(cloud.of(token)) >= count, number=signal.SIGKILL
    )
    assert killed.code == -signal.SIGKILL
    cloud.pace = 2_000
    _without_half_written_attributes(workspace)
    assert "pulumi cancel" in workspace.up(fails=True).output
    workspace.cli("cancel", "--yes", "--stack", workspace.stack)

    begun = [(each, made) for each in workspace.pending() if (made := _made_of(each, cloud)) is not None]
    assert {made.table.token for _, made in begun} >= {token}
    for index, (resource, made) in enumerate(begun):
        if index:
            clouds.ask(cloud.delete(made))
        else:
            _import(workspace, resource, made.id)
    workspace.refresh("--clear-pending-creates")
    assert workspace.pending() == []

    workspace.up()
    workspace.up("--expect-no-changes")
    _is_not_orphaned(cloud, workspace)


@pytest.mark.parametrize("name", ["gke"], indirect=True)
def test_an_older_state_learns_what_was_made_since_by_the_import_that_preview_writes(
    cloud: Cloud, stack: Path, workspace: Workspace, tmp_path: Path
) -> None:
    """docs/restore.md. The pool of CPU nodes was made after that version of the state. One cloud is enough,
    because the engine imports.
    """
    workspace.environment["CLUSTER_STACK"] = str(edited(stack, tmp_path / "before.yaml", {_CPU: None}))
    workspace.up()
    older = workspace.state_file.read_bytes()
    workspace.environment["CLUSTER_STACK"] = str(stack)
    workspace.up()
    made = list(cloud.standing.values())
    ids = {(each["type"], each["urn"].rpartition("::")[2]): each.get("id") for each in workspace.state()}
    workspace.state_file.write_bytes(older)

    file = tmp_path / "import.json"
    workspace.preview(f"--import-file={file}")
    wanted = json.loads(file.read_text())
    for each in wanted["resources"]:
        each["id"] = ids[each["type"], each.get("logicalName") or each["name"]]
    file.write_text(json.dumps(wanted))
    workspace.cli(
        *("import", f"--file={file}", "--protect=false", "--generate-code=false"),
        *("--skip-preview", "--yes", "--stack", workspace.stack),
    )
    workspace.up()
    assert list(cloud.standing.values()) == made
    _is_not_orphaned(cloud, workspace)


@pytest.mark.parametrize("name", ["eks"], indirect=True)
def test_a_cluster_that_is_gone_is_made_again_beside_all_that_is_left(
    name: str, cloud: Cloud, workspace: Workspace
) -> None:
    """docs/restore.md. (The half in Kubernetes: tests/integration/library/test_restore.py.) On EKS, where
    launch templates know the cluster and outlive it.
    """
    workspace.up()
    for key in [key for key in cloud.standing if key[0].startswith(_WITH_CLUSTER[name])]:
        del cloud.standing[key]
    kept = list(cloud.standing.values())

    workspace.refresh()
    _is_not_orphaned(cloud, workspace)
    planned = {step.op for step in workspace.preview().changes}
    assert planned <= {"create", "update"}, "what knows the cluster is updated: launch templates"
    workspace.up()
    assert list(cloud.standing.values())[: len(kept)] == kept
    _is_not_orphaned(cloud, workspace)


def _made_of(resource: dict[str, Any], cloud: Cloud) -> Standing | None:
    """What stands in the cloud for a creation that the state does not know the end of."""
    found = (each for each in cloud.of(resource["type"]) if each.inputs == resource["inputs"])
    return next(found, None)


def _import(workspace: Workspace, resource: dict[str, Any], id_: str) -> None:
    provider = resource["provider"].rpartition("::")[0]
    workspace.cli(
        *("import", resource["type"], resource["urn"].rpartition("::")[2], id_),
        *("--parent", f"parent={resource['parent']}", "--provider", f"provider={provider}"),
        *("--protect=false", "--generate-code=false", "--skip-preview", "--yes"),
        *("--stack", workspace.stack),
    )


def _is_not_orphaned(cloud: Cloud, workspace: Workspace) -> None:
    """What stands in the cloud is in the state, and the other way round."""
    known = {
        (each["type"], each["id"])
        for each in workspace.state()
        if each.get("custom") and each["type"].startswith(f"{cloud.name}:")
    }
    assert set(cloud.standing) == known


def test_a_state_whose_attributes_were_being_written_is_mended_by_what_the_runbook_says(
    cloud: Cloud, workspace: Workspace
) -> None:
    """The kill that hits that moment is rare; what it leaves is made here."""
    state = workspace.state_file
    state.with_name(f"{state.name}.attrs").write_text("")
    assert "failed to load checkpoint: EOF" in workspace.preview(fails=True).output
    _without_half_written_attributes(workspace)
    workspace.preview()


def _without_half_written_attributes(workspace: Workspace) -> None:
    for each in (workspace.folder / "state").rglob("*.attrs"):
        if not each.stat().st_size:
            each.unlink()


def _told(output: str, name: str) -> str:
    """What the engine says of one resource at the end: its lines in the diagnostics, whatever its type."""
    sections = re.split(r"\n  (?=\w[\w:/]* \()", output.partition("Diagnostics:")[2])
    return "\n".join(section for section in sections if f"({name}):" in section.partition("\n")[0])


def _line(stack: Path, key: str) -> int:
    lines = stack.read_text().splitlines()
    pattern = re.compile(rf"\s*(muster:)?{key}:")
    return next(number for number, line in enumerate(lines, 1) if pattern.match(line))
