"""What could never start is refused by the API server itself, with the fix, to everyone and in every mode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.model.tenancy import TenancyMode
from muster.render.tenancy.policies.work import reviews
from tests.integration.tenancy import works
from tests.integration.tenancy.cluster import Object, allowed, apply, await_denied, refused
from tests.integration.tenancy.conftest import World, described
from tests.integration.tenancy.works import cluster_spec, named, owner

GROUP = cluster_spec()["workerGroupSpecs"][0]


def groups(*called: str, **spec: Any) -> Object:
    """A RayJob with these worker groups."""
    listed = [GROUP | {"groupName": each} for each in called]
    return works.ray_job(rayClusterSpec=cluster_spec(workerGroupSpecs=listed), **spec)


def within(kind: str) -> Object:
    return cluster_spec(upgradeStrategy={"type": kind})


SUBMITTED = {"submissionMode": "K8sJobMode"}
REFUSED: dict[str, tuple[Object, tuple[str, ...]]] = {
    # KubeRay takes DNS-1035 labels alone; the API server takes these.
    "a long RayJob": (named(works.ray_job(), "x" * 48), ("48 characters", "at most 47", "shorten")),
    "a long RayCluster": (named(works.ray_cluster(), "x" * 54), ("54 characters", "at most 53")),
    "a long RayService": (named(works.ray_service(), "x" * 48), ("at most 47",)),
    "a digit first": (named(works.ray_job(), "70b-finetune"), ("name 70b-finetune", "begins with a letter")),
    "a dot": (named(works.ray_cluster(), "team.llm"), ("name team.llm",)),
    # Kueue makes a PodSet of each group, by its name in lower case.
    "an underscore": (
        groups("gpu_workers"),
        ("group gpu_workers cannot be queued", "a groupName of at most 63"),
    ),
    "a long group": (groups("x" * 64), ("at most 63",)),
    "a second head": (groups("Head"), ("the same name in lower case (head, head)", "other than head")),
    "two alike": (groups("W", "w"), ("(w, w)", "give each worker group a groupName of its own")),
    "a second submitter": (groups("submitter", **SUBMITTED), ("(submitter, submitter)",)),
    # The head and the pod that submits are two more.
    "many groups": (
        groups(*(f"g{n}" for n in range(17)), **SUBMITTED),
        ("its 19 groups", "the 18 that queue"),
    ),
    "a strategy within a RayJob": (
        works.ray_job(rayClusterSpec=within("None")),
        ("spec.rayClusterSpec.upgradeStrategy is for a RayCluster of its own", "remove it"),
    ),
    "a strategy within a RayService": (
        works.ray_service(rayClusterConfig=within("None") | {"suspend": True}),
        ("spec.rayClusterConfig.upgradeStrategy", "remove it"),
    ),
}
TAKEN: dict[str, Object] = {
    "47 characters": named(works.ray_job(), "x" * 47),
    "53 characters": named(works.ray_cluster(), "x" * 53),
    "a letter first": named(works.ray_job(), "b70-finetune"),
    "capitals": groups("GPU"),
    "a group called submitter where none is": groups("submitter"),
    "18 groups": groups(*(f"g{n}" for n in range(17))),
    "another's cluster, a long name": named(works.ray_cluster(upgradeStrategy={"type": "None"}), "x" * 53),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_never_run_is_refused_to_everyone_with_what_would(world: World, name: str) -> None:
    body, words = REFUSED[name]
    for who in (world.member, world.admin):
        refused(who.create(body), "muster-reviews", "would never run", *words)


@pytest.mark.parametrize("name", TAKEN)
def test_what_kuberay_and_kueue_take_passes(world: World, name: str) -> None:
    allowed(world.member.create(TAKEN[name]))


def test_two_mistakes_are_named_in_one_answer(world: World) -> None:
    message = world.member.create(named(groups("gpu_workers"), "x" * 48)).message
    assert "48 characters" in message
    assert "; also: group gpu_workers" in message


def test_a_name_that_the_server_completes_is_judged(world: World) -> None:
    body = works.ray_job()
    body["metadata"] = {k: v for k, v in body["metadata"].items() if k != "name"} | {"generateName": "x" * 43}
    assert "48 characters" in world.member.create(body).message


def test_a_change_brings_nothing_that_could_never_run(world: World) -> None:
    body = world.member.ensure(named(works.ray_cluster(), "reviewed"))
    for called, is_allowed in (("gpu_workers", False), ("other", True)):
        answer = world.member.patch(body, {"spec": {"workerGroupSpecs": [GROUP | {"groupName": called}]}})
        assert answer.is_allowed is is_allowed, answer.message


def test_less_of_what_was_too_much_passes(world: World) -> None:
    """It exists since before the policy: here KubeRay's account has made it, which is not reviewed."""
    called = ["W", "w", "V", "v", *(f"g{number}" for number in range(20))]
    listed = [GROUP | {"groupName": each} for each in called]
    body = named(works.ray_cluster(workerGroupSpecs=listed), "many")
    owners = {"ownerReferences": [owner("RayJob", "ray.io/v1", "train")]}
    world.controllers["kuberay"].ensure({**body, "metadata": body["metadata"] | owners})
    alone = {"metadata": {"ownerReferences": None}}
    for fewer in (listed[1:], listed[4:], listed[:4]):
        allowed(world.admin.patch(body, alone | {"spec": {"workerGroupSpecs": fewer}}))
    more = [*listed, GROUP | {"groupName": "one-more"}]
    answer = world.admin.patch(body, alone | {"spec": {"workerGroupSpecs": more}})
    assert "its 26 groups" in answer.message


def test_the_cluster_that_kuberay_makes_for_a_reviewed_job_is_not_reviewed_again(world: World) -> None:
    made = named(works.ray_cluster(suspend=False), "train-" + "x" * 50)
    made["metadata"] |= {"labels": {}, "ownerReferences": [owner("RayJob", "ray.io/v1", "train")]}
    allowed(world.controllers["kuberay"].create(made))


@pytest.fixture(scope="module", params=[Scheduler.KUEUE, Scheduler.KAI])
def unenforced(world: World, request: pytest.FixtureRequest) -> Scheduler:
    """The policy of a stack with `tenancy.mode: off`, in a namespace where none of the others is in force."""
    scheduler: Scheduler = request.param
    stack = described()
    stack = replace(stack, scheduler=scheduler, tenancy=replace(stack.tenancy, mode=TenancyMode.OFF))
    notes = {names.QUEUES_ANNOTATION: "default", names.PRIORITIES_ANNOTATION: "dev"}
    name = f"open-{scheduler}"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": notes}}
    apply(world.server, [space, *_renamed(stack, name)])
    await_denied(world.admin, _queued(works.ray_job(shutdownAfterJobFinishes=False), scheduler))
    return scheduler


def _renamed(stack: Stack, name: str) -> list[Object]:
    policy, binding = reviews(stack).manifests(TenancyMode.ENFORCE)
    selector = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    policy["spec"]["matchConstraints"]["namespaceSelector"] = selector
    binding["spec"]["policyName"] = name
    return [{**body, "metadata": {"name": name}} for body in (policy, binding)]


def _queued(body: Object, scheduler: Scheduler, *, queue: str = "default", priority: str = "dev") -> Object:
    is_kai = scheduler is Scheduler.KAI
    labels = {
        names.KAI_QUEUE_LABEL if is_kai else names.QUEUE_LABEL: queue,
        names.KAI_PRIORITY_LABEL if is_kai else names.PRIORITY_LABEL: priority,
    }
    return {**body, "metadata": body["metadata"] | {"labels": labels, "namespace": f"open-{scheduler}"}}


SCALES = cluster_spec(enableInTreeAutoscaling=True)
BOUNDS = cluster_spec(workerGroupSpecs=[GROUP | {"maxReplicas": 99, "minReplicas": 3}])
ALWAYS: dict[str, tuple[Object, tuple[str, ...]]] = {
    "interactive": (works.ray_job(submissionMode="InteractiveMode"), ("cannot be suspended", "use HTTPMode")),
    "keeps its cluster": (
        works.ray_job(shutdownAfterJobFinishes=False),
        ("set spec.shutdownAfterJobFinishes: true",),
    ),
    "bounds": (works.ray_job(rayClusterSpec=BOUNDS), ("set 0 <= minReplicas <= replicas <= maxReplicas",)),
}
KUEUE: dict[str, tuple[Object, tuple[str, ...]]] = {
    "scales": (
        works.ray_cluster(enableInTreeAutoscaling=True),
        ("remove enableInTreeAutoscaling", "elastic-job"),
    ),
    "a job scales": (works.ray_job(rayClusterSpec=SCALES), ("or use an elastic RayCluster",)),
    "another's cluster": (works.in_a_cluster("HTTPMode"), ("never starts here", "`ray job submit`")),
    "a second cluster": (
        works.ray_service(upgradeStrategy={"type": "NewCluster"}),
        ("second cluster", "set it to None"),
    ),
}
KAI: dict[str, tuple[Object, tuple[str, ...]]] = {
    "a submitter": (works.ray_job(submissionMode="K8sJobMode"), ("set spec.submissionMode: HTTPMode",)),
}


def test_where_tenancy_is_off_it_is_refused_all_the_same(world: World, unenforced: Scheduler) -> None:
    for body, words in (ALWAYS | (KAI if unenforced is Scheduler.KAI else KUEUE)).values():
        refused(world.admin.create(_queued(body, unenforced)), *words)


def test_where_tenancy_is_off_a_job_names_a_queue_and_a_priority_that_are_there(
    world: World, unenforced: Scheduler
) -> None:
    for body in (works.ray_job(), works.ray_cluster(), works.ray_service(), works.job()):
        assert world.admin.create(_queued(body, unenforced)).is_allowed
        answer = world.admin.create(_queued(body, unenforced, priority="prod"))
        assert "priority prod is not available to this namespace" in answer.message
        assert "one of: dev" in answer.message
    answer = world.admin.create(_queued(works.ray_job(), unenforced, queue=""))
    assert "it names no queue; set metadata.labels" in answer.message
    assert "one of: default" in answer.message
