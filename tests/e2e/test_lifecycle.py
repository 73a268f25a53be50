"""`pulumi up` twice, refresh, destroy: what it says is what is there, and nothing stays behind."""

from __future__ import annotations

import time

import pytest

from examples.moments import holds
from tests.e2e import gangs, light
from tests.e2e.plane import Muster

_STACK = ("--yes", "--stack", "local")
DESTROY_BUDGET = 120.0


def test_a_second_up_changes_nothing(muster: Muster) -> None:
    muster.pulumi("up", *_STACK, "--expect-no-changes")


def test_refresh_finds_no_drift(muster: Muster) -> None:
    muster.pulumi("refresh", *_STACK, "--expect-no-changes")


def test_no_job_of_the_system_is_queued(muster: Muster) -> None:
    """Kueue manages team namespaces alone."""
    for workload in muster.recorder.now().of("Workload"):
        assert workload["metadata"]["namespace"].startswith("team-")
    assert holds(muster.cluster.get("AdmissionCheck", "gang") or {}, "Active")
    for queue in muster.cluster.all("ClusterQueue"):
        assert holds(queue, "Active"), queue["metadata"]["name"]


@pytest.mark.last
def test_destroy_ends_in_two_minutes_and_leaves_nothing(muster: Muster) -> None:
    if not muster.is_own:
        pytest.skip("the plane is a standing one: its stack stays (unset MUSTER_E2E_PLANE to test destroy)")
    # With work on it: a gang that runs, and one that waits for quota for ever.
    image = muster.image("python")
    for name in ("running", "waiting"):
        muster.cluster.apply(light.ray_cluster(name, namespace="team-b", image=image, workers={"l4": 1}))
    muster.wait(
        "one runs", lambda: any(gangs.is_ready(muster.recorder, name) for name in ("running", "waiting"))
    )

    begun = time.monotonic()
    muster.pulumi("destroy", *_STACK, "--skip-preview")
    seconds = time.monotonic() - begun

    print(f"destroy took {seconds:.0f} s of {DESTROY_BUDGET:.0f} s")
    assert muster.cluster_wide() - muster.before == frozenset()
    assert seconds <= DESTROY_BUDGET
