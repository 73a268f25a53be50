"""Our programs may do what they do and nothing else: what was used in this run is what the rules give."""

from pathlib import Path
from typing import Final

import pytest

from muster.components.gang_authority import MANAGER
from muster.model import names
from muster.model.stack import Scheduler
from muster.model.work import GATED, QUEUED
from tests import built
from tests.integration.rights import Right, asked_versions, granted, used

_HERE: Final = Path(__file__).parent
TELLING: Final = {Scheduler.KUEUE: ("controller", "kueue_api"), Scheduler.KAI: ("controller", "kai_gangs")}
_CERTIFICATE: Final = "a certificate that comes to its end is replaced in its Secret"
_KEPT_HISTORY: Final = "its capacity is lost (KAI), or claims come off an elastic cluster (Kueue)"
_TAKEN_NAME: Final = "a create that finds its name taken reads whose that is"
# What an undisturbed run need not meet.
RARE: Final[dict[Right, str]] = {
    **{
        (MANAGER, "get", each.group, each.resource): "whether the author of an idle gang asks to keep it"
        for each in QUEUED
        if each.kind != "Job"
    },
    (MANAGER, "get", "", "podtemplates"): _TAKEN_NAME,
    (MANAGER, "get", "autoscaling.x-k8s.io", "provisioningrequests"): _TAKEN_NAME,
    (MANAGER, "get", "resource.nvidia.com", "computedomains"): _TAKEN_NAME,
    (MANAGER, "get", "", "pods"): _TAKEN_NAME,
    (MANAGER, "delete", "", "pods"): "its capacity is lost (KAI), or it was born with an older claim (Kueue)",
    (MANAGER, "get", "ray.io", "rayclusters"): _KEPT_HISTORY,
    (MANAGER, "patch", "ray.io", "rayclusters"): _KEPT_HISTORY,
    (MANAGER, "get", "batch", "jobs"): _KEPT_HISTORY,
    (MANAGER, "patch", "batch", "jobs"): _KEPT_HISTORY,
    **{
        (
            MANAGER,
            verb,
            each.group,
            each.resource,
        ): "with KAI, where a stack serves them, as Jobs are; and pods "
        "of a JobSet that seem to have no quota for a minute"
        for each in GATED
        if each.kind != "Job"
        for verb in ("get", "list", "watch", "patch")
    },
    (MANAGER, "get", "apps", "deployments"): "whether an end is a removal: with KAI held by unit tests",
    (MANAGER, "patch", "", "secrets"): _CERTIFICATE,
    (MANAGER, "patch", "events.k8s.io", "events"): "news that is told again counts on in its Event",
}


@pytest.mark.parametrize("scheduler", Scheduler)
def test_no_right_is_given_that_nothing_uses(request: pytest.FixtureRequest, scheduler: Scheduler) -> None:
    built.programs(("etcd", "kube-apiserver", "kueue", "kube-controller-manager", "kuberay"))
    session = request.session
    files = {file for folder in TELLING[scheduler] for file in (_HERE / folder).glob("test_*.py")}
    is_whole = files <= {item.path for item in session.items} and not request.config.option.keyword
    if session.testsfailed or not is_whole:
        pytest.skip(f"tells only after all tests of {', '.join(TELLING[scheduler])}")
    assert not sorted(granted(scheduler) - used(scheduler) - RARE.keys())


def test_our_programs_ask_kueue_for_nothing_that_it_no_longer_serves() -> None:
    """Kueue 0.20 does not serve v1beta1: CHANGELOG/CHANGELOG-0.20.md."""
    asked = asked_versions(Scheduler.KUEUE, names.KUEUE_API_VERSION.partition("/")[0])
    if not asked:
        pytest.skip("tells only after tests with the real Kueue")
    assert asked == {names.KUEUE_API_VERSION.partition("/")[2]}


def test_what_is_rare_is_given() -> None:
    everything = frozenset().union(*map(granted, Scheduler))
    assert everything >= RARE.keys()
