"""A KAI stack: its queues are labels that anybody may write, so the policies are all that holds a tenant to
his own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from localplane import bare
from localplane.bare.programs import CRDS, PROVISIONING_CRD
from model import names
from model.stack import Scheduler
from tests import built
from tests.integration.tenancy import crds
from tests.integration.tenancy.cluster import Answer, Caller, Object
from tests.integration.tenancy.conftest import World, described, world_of
from tests.integration.tenancy.works import QUEUE, changed, labelled, owner, pod, ray_cluster, ray_job

OWN = "team-a-l4"
GATE = [{"name": names.GANG_GATE}]


@pytest.fixture(scope="module")
def kai(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server of its own: Kueue's policies are on the other one."""
    programs = built.programs(("etcd", "kube-apiserver"), (CRDS, PROVISIONING_CRD))
    kuberay = built.kuberay()
    with bare.control_plane(tmp_path_factory.mktemp("kai"), programs) as server:
        kinds = [*programs.kinds(CRDS), *programs.kinds(PROVISIONING_CRD), *crds.kuberay(kuberay)]
        server.define(kinds)
        yield world_of(server, replace(described(), scheduler=Scheduler.KAI))


def queued(body: Object, queue: str | None = OWN) -> Object:
    """The same work, as KAI's users write it."""
    body = changed(body, "metadata", "labels", value={names.KAI_QUEUE_LABEL: queue} if queue else {})
    return changed(body, "spec", "suspend", value=None)


CLUSTER = queued(ray_cluster())
ATTACKS: dict[str, tuple[Callable[[Caller], Answer], str]] = {
    "another team's queue": (lambda who: who.create(queued(ray_cluster(), "team-b-l4")), OWN),
    "a queue that is no leaf": (lambda who: who.create(queued(ray_cluster(), "research-l4")), OWN),
    "no queue": (lambda who: who.create(queued(ray_cluster(), None)), OWN),
    "no queue for a RayJob": (lambda who: who.create(queued(ray_job(), None)), OWN),
    "a priority that is not the team's": (
        lambda who: who.create(labelled(CLUSTER, names.KAI_PRIORITY_LABEL, "prod")),
        "dev",
    ),
    "a job that nothing stops": (
        lambda who: who.create(queued(ray_job(submissionMode="InteractiveMode"))),
        "cannot be suspended",
    ),
    "a GPU pod of his own": (lambda who: who.create(pod()), "submit a RayJob"),
    "a GPU pod that names a queue": (
        lambda who: who.create(labelled(pod(), names.KAI_QUEUE_LABEL, OWN)),
        "submit a RayJob",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("who", ["member", "person", "trusted"])
def test_an_attack_is_denied_and_told_what_to_do_instead(kai: World, name: str, who: str) -> None:
    attempt, words = ATTACKS[name]
    answer = attempt(getattr(kai, who))
    assert not answer.is_allowed
    if "forbidden: User" not in answer.message:  # RBAC has Kubernetes' own words
        assert words in answer.message, answer.message


def test_ordinary_work_of_the_same_team_passes(kai: World) -> None:
    for who in kai.tenants:
        for body in (CLUSTER, labelled(CLUSTER, names.KAI_PRIORITY_LABEL, "dev"), queued(ray_job())):
            answer = who.create(body)
            assert answer.is_allowed, answer.message


def test_a_queue_cannot_be_changed_to_another_teams_later(kai: World) -> None:
    assert kai.admin.create(CLUSTER, dry_run=False).is_allowed
    change = {"metadata": {"labels": {names.KAI_QUEUE_LABEL: "team-b-l4"}}}
    answer = kai.trusted.patch(CLUSTER, change)
    assert not answer.is_allowed
    assert OWN in answer.message


def test_a_gpu_pod_of_a_cluster_stands_behind_our_gate_or_is_not_made(kai: World) -> None:
    """With our webhooks down nothing puts the gate there: KubeRay's pods are refused, and no others."""
    body = pod(owner=owner("RayCluster", "ray.io/v1"), schedulerName=names.KAI_SCHEDULER)
    kuberay = kai.controllers["kuberay"]
    refused = kuberay.create(body)
    assert not refused.is_allowed
    assert names.GANG_GATE in refused.message
    gated = kuberay.create(changed(body, "spec", "schedulingGates", value=GATE))
    assert gated.is_allowed, gated.message
    head = pod(0, owner=owner("RayCluster", "ray.io/v1"), schedulerName=names.KAI_SCHEDULER)
    assert kuberay.create(head).is_allowed
    elsewhere = changed(body, "metadata", "namespace", value="ray-system")
    assert kai.admin.create(elsewhere).is_allowed
    assert QUEUE not in str(refused.message)
