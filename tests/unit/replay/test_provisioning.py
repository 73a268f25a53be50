"""How long nodes of a pool take, from what was recorded until a moment."""

from muster.model import names
from muster.replay.kueue import has_waits, provisioning
from muster.replay.recording import Job, PodSet, Run
from tests.unit.model.model_stacks import CPU, H100, L4

_POOLS = (CPU, H100, L4)
_AT = 5000.0


def _job(number: int, *flavors: str, admitted: float | None, ended: float | None = None) -> Job:
    """It got its quota at second 1000 and more."""
    run = Run(reserved=1000.0 + number, admitted=admitted, ended=ended, end=None, flavors=flavors)
    pods = PodSet(name="main", count=1, requests={names.GPU_RESOURCE: 1})
    return Job(id=f"job-{number}", team="vision", created=0.0, pod_sets=(pods,), runs=(run,))


def test_it_is_the_time_from_the_reservation_of_quota_to_the_admission() -> None:
    jobs = [_job(number, "h100", admitted=1000.0 + 241 * number) for number in range(1, 5)]
    found = provisioning(jobs, _POOLS, at=_AT)
    assert found.keys() == {"h100"}
    assert found["h100"].lengths == (240, 480, 720, 960)


def test_a_run_in_several_pools_counts_for_those_with_devices() -> None:
    jobs = [_job(0, "cpu", "h100", admitted=1500.0), _job(1, "cpu", admitted=1011.0)]
    found = provisioning(jobs, _POOLS, at=_AT)
    assert {pool: each.lengths for pool, each in found.items()} == {"h100": (500,), "cpu": (10,)}


def test_what_was_not_known_yet_does_not_count() -> None:
    """One run still waits at the moment, another begins later."""
    jobs = [_job(0, "h100", admitted=1100.0), _job(1, "h100", admitted=9000.0)]
    jobs.append(_job(8000, "h100", admitted=9001.0))
    found = provisioning(jobs, _POOLS, at=_AT)["h100"]
    assert (found.lengths, found.shares) == ((100,), (0.5,))


def test_a_run_that_lost_its_quota_before_says_that_it_takes_longer() -> None:
    lost = _job(1, "h100", admitted=None, ended=1301.0)
    found = provisioning([lost, _job(0, "h100", admitted=1400.0)], _POOLS, at=_AT)["h100"]
    assert (found.lengths, found.shares) == ((400,), (1.0,))
    assert provisioning([lost], _POOLS, at=_AT) == {}


def test_nodes_that_are_there_at_once_are_no_wait() -> None:
    jobs = [_job(number, "h100", admitted=1000.0 + number) for number in range(19)]
    late = [_job(number, "h100", admitted=1300.0 + number) for number in range(19, 22)]
    assert not has_waits(provisioning([*jobs, late[0]], _POOLS, at=_AT)["h100"])
    assert has_waits(provisioning([*jobs, *late], _POOLS, at=_AT)["h100"])
