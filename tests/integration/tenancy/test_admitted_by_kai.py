"""With KAI, too, `muster check` answers to all published work as admission does: the policies of a stack, and
our webhooks, which fill in and compare figures, called by a real API server. test_samples.py has Kueue's.
"""

import json
from collections.abc import Iterator

import pytest

from muster.check.admission import Admission
from muster.model import gangpolicy, queuetree
from muster.model.stack import Stack
from muster.model.work import FOR_MEMBERS
from muster.render import gang
from muster.render.queuetree import tree
from tests import built, envtest
from tests.envtest.process import PROVISIONING_CRD, Process
from tests.integration.kueue_api import world as kueue
from tests.integration.tenancy import crds
from tests.integration.tenancy.cluster import Object, apply
from tests.integration.tenancy.conftest import World, world_of
from tests.integration.tenancy.samples import TEAM, Sample, folders, in_queue, samples
from tests.integration.tenancy.test_samples import agree
from tests.kai import definitions
from tests.unit.check.public_work import cases
from tests.unit.check.stacks import pod, ray_job, stack_text
from tests.unit.model.model_stacks import parsed
from tests.waiting import eventually


class _Plane(kueue.World):
    """Without Kueue, whose word for an active check nobody waits for."""

    def is_active(self, check: str) -> bool:
        return bool(check)


@pytest.fixture(scope="module")
def stack() -> Stack:
    quotas = {TEAM: {"l4": 16, "h100": 32, "cpu": 64}, "team-b": {"l4": 4}}
    teams = {"teams": {name: {"quota": quota} for name, quota in quotas.items()}}
    return parsed(stack_text("gke", "kai", departments={"research": teams}, ray={"auth": "preferred"}))


@pytest.fixture(scope="module")
def admission(stack: Stack) -> Admission:
    return Admission(stack, TEAM)


@pytest.fixture(scope="module")
def world(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    programs = built.programs(("etcd", "kube-apiserver"), (PROVISIONING_CRD,))
    folder = tmp_path_factory.mktemp("admitted-by-kai")
    kinds = [
        *programs.kinds(PROVISIONING_CRD),
        *crds.kuberay(built.kuberay()),
        *definitions.ours().values(),
        *(gangpolicy.crd(), queuetree.crd()),
    ]
    with envtest.control_plane(folder, programs, kinds=kinds) as server:
        apply(server, json.loads(json.dumps([gang.policy(stack, placeholder_image="none"), tree(stack)])))
        found = world_of(server, stack)
        nobody = Process("kueue", [], log=folder / "kueue.log")
        plane = _Plane(server, stack, nobody, programs, audits_rights=False)
        with plane.webhooks(fills_in=True):
            eventually("the API server asks our webhooks", lambda: "it names no queue" in _refusal(found))
            yield found


def _refusal(world: World) -> str:
    """To a job of which our webhook cannot know the queue."""
    body = ray_job(pod(1))
    body["metadata"]["namespace"] = TEAM
    return world.member.create(body).message


def test_all_published_work_is_answered_as_the_check_does(world: World, admission: Admission) -> None:
    known = {each.kind for each in FOR_MEMBERS}
    listed = [Sample("", each.name, each.body) for each in cases()]
    listed += [each for publisher in folders() for each in samples(publisher)]
    bodies: dict[str, Object] = {
        each.name: in_queue(each, admission) for each in listed if each.body["kind"] in known
    }
    bodies |= {f"{name}, fixed": admission.fixed(body) for name, body in bodies.items()}
    assert sum(admission.review(body).is_admitted for body in bodies.values()) > 50
    agree(world, admission, bodies, has_webhooks=True)
