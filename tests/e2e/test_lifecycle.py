"""`pulumi up` twice, refresh, destroy: what it says is what is there, and nothing stays behind."""

import copy

import pytest

from muster.local.demo.cluster import Object
from muster.local.demo.events import holds
from tests.e2e import gangs, light
from tests.e2e.local_cluster import Muster

_STACK = ("--yes", "--stack", "local")


def test_a_second_up_changes_nothing(muster: Muster) -> None:
    muster.pulumi("up", *_STACK, "--expect-no-changes")


def test_refresh_finds_no_drift(muster: Muster) -> None:
    muster.pulumi("refresh", *_STACK, "--expect-no-changes")


def test_a_quota_that_was_changed_by_hand_is_told_by_the_nightly_job_which_changes_nothing(
    muster: Muster, capsys: pytest.CaptureFixture[str]
) -> None:
    # The command of the CI files that `muster init` writes.
    look = ("refresh", "--stack", "local", "--preview-only", "--expect-no-changes", "--diff")
    muster.pulumi(*look)
    state = muster.pulumi("stack", "export", "--stack", "local")
    groups = _groups(muster)
    by_hand = copy.deepcopy(groups)
    by_hand[0]["flavors"][0]["resources"][0]["nominalQuota"] = "77"
    _set_groups(muster, by_hand)
    try:
        capsys.readouterr()
        with pytest.raises(AssertionError, match="no changes were expected but changes occurred"):
            muster.pulumi(*look)

        told = capsys.readouterr().out
        assert "Bundle::team-a]" in told
        assert '=> "77"' in told
        assert _groups(muster) == by_hand
        assert muster.pulumi("stack", "export", "--stack", "local") == state
    finally:
        _set_groups(muster, groups)
    muster.pulumi(*look)


def _groups(muster: Muster) -> list[Object]:
    found: list[Object] = (muster.cluster.get("ClusterQueue", "team-a") or {})["spec"]["resourceGroups"]
    return found


def _set_groups(muster: Muster, groups: list[Object]) -> None:
    muster.cluster.patch("ClusterQueue", "team-a", {"spec": {"resourceGroups": groups}})


def test_no_job_of_the_system_is_queued(muster: Muster) -> None:
    """Kueue manages team namespaces alone."""
    for workload in muster.recorder.now().of("Workload"):
        assert workload["metadata"]["namespace"].startswith("team-")
    # A Kueue that has just started, because its API server was killed, has yet to read what a queue names.
    muster.wait("our check and every queue are active", lambda: _all_active(muster))


def _all_active(muster: Muster) -> bool:
    check = muster.cluster.get("AdmissionCheck", "gang") or {}
    return all(holds(found, "Active") for found in (check, *muster.cluster.all("ClusterQueue")))


@pytest.mark.last
def test_destroy_with_work_on_it_ends_and_leaves_nothing(muster: Muster) -> None:
    if not muster.is_own:
        pytest.skip(
            "the local cluster is a standing one: its stack stays (unset MUSTER_E2E_PLANE to test destroy)"
        )
    # With work on it: a gang that runs, and one that waits for quota for ever.
    image = muster.image("python")
    for name in ("running", "waiting"):
        muster.cluster.apply(light.ray_cluster(name, namespace="team-b", image=image, workers={"l4": 1}))
    muster.wait(
        "one runs", lambda: any(gangs.is_ready(muster.recorder, name) for name in ("running", "waiting"))
    )

    muster.pulumi("destroy", *_STACK, "--skip-preview")

    assert muster.left_behind(muster.before) == frozenset()
