"""What no node of its queue's pools can hold, and what its queue never has, is refused with the figures."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.config import load
from muster.controller.gangs.demand import Uncopied
from muster.controller.kueue.jobs import JobPodSet
from muster.controller.kueue.limits import Pools, never_fits_anywhere
from muster.controller.kueue.webhooks import Reviews
from muster.controller.runtime.review import Allow, Deny, Request, Verdict, question
from muster.model import names
from muster.model.gangpolicy import GangPolicy, from_spec
from muster.model.kueue import FlavorQuota, Group, KueueOptions, Operator, Quota, Toleration
from muster.model.names import PLACEHOLDER_CLASS
from muster.model.quantities import Gpus, Millicores, Quantity
from muster.model.queues import Allowance, Amount, Bound, Limit
from muster.model.queuetree import QueueTree
from muster.model.queuetree import from_spec as tree_from_spec
from muster.model.stack import Scheduler, Stack
from muster.render import gang, queuetree
from muster.render.kueue import manager_config
from tests.unit.gangs.paper import flavor_policy
from tests.unit.model.model_stacks import CPU, L4, gpus, two_teams

Json = dict[str, Any]
TOLERATED = {"key": "nvidia.com/gpu", "operator": "Exists"}
STACK = two_teams(Allowance(quota={"l4": gpus(8), "h100": gpus(16)}), Allowance(quota={"l4": gpus(2)}))


def pod(pool: str = "", **amounts: str) -> Json:
    """`amounts`: of one pod; `gpu` is nvidia.com/gpu."""
    found = {names.GPU_RESOURCE if key == "gpu" else key: value for key, value in amounts.items()}
    spec: Json = {"containers": [{"name": "c", "resources": {"requests": found}}]}
    if names.GPU_RESOURCE in found:
        spec["tolerations"] = [TOLERATED]
    return {"spec": spec | ({"nodeSelector": {names.POOL_LABEL: pool}} if pool else {})}


def ray(*workers: tuple[int, Json], head: Json | None = None) -> Json:
    groups = [
        {"groupName": f"w{number}", "replicas": count, "template": template}
        for number, (count, template) in enumerate(workers)
    ]
    return {"headGroupSpec": {"template": head or pod(cpu="1")}, "workerGroupSpecs": groups}


def described(kind: str, cluster: Json) -> Json:
    match kind:
        case "rayjob":
            spec = {"rayClusterSpec": cluster, "shutdownAfterJobFinishes": True, "submissionMode": "HTTPMode"}
        case "rayservice":
            spec = {"rayClusterConfig": cluster, "upgradeStrategy": {"type": "None"}}
        case _:
            spec = cluster
    return spec


def job(template: Json, count: int = 1) -> Json:
    return {"parallelism": count, "template": template}


def review(kind: str, spec: Json, stack: Stack = STACK, **more: Any) -> Verdict:
    """As the webhooks see it: by what the stack writes into the cluster."""
    policy = from_spec(json.loads(json.dumps(gang.policy(stack)["spec"])), is_stored=True)
    assert isinstance(policy, GangPolicy), policy
    tree = tree_from_spec(json.loads(json.dumps(queuetree.tree(stack)["spec"])))
    return judge(kind, spec, policy, tree, **more)


def judge(
    kind: str,
    spec: Json,
    policy: GangPolicy | None,
    tree: QueueTree,
    *,
    owner: Json | None = None,
    queue: str = "default",
) -> Verdict:
    label = names.KAI_QUEUE_LABEL if tree.kai else names.QUEUE_LABEL
    metadata: Json = {"name": "j", "labels": {label: queue}}
    if kind == "cronjob":
        spec = {"schedule": "0 3 * * *", "jobTemplate": {"metadata": metadata, "spec": spec}}
    if owner is not None:
        metadata = metadata | {"ownerReferences": [owner]}
    raw = msgspec.Raw(json.dumps({"metadata": metadata, "spec": spec}).encode())
    webhook: Any = next(
        each for each in Reviews(lambda: policy, lambda: tree).listed() if each.path == f"/validate-{kind}"
    )
    request = Request(uid="u", operation="CREATE", namespace="team-a", object=raw)
    verdict: Verdict = webhook.review(question(request, webhook.type))
    return verdict


def refusal(verdict: Verdict) -> str:
    assert isinstance(verdict, Deny), verdict
    return verdict.message


RAY = ("rayjob", "raycluster", "rayservice")
BATCH = ("job", "cronjob")


@pytest.mark.parametrize("kind", [*RAY, *BATCH])
@pytest.mark.parametrize(
    ("template", "words"),
    [
        (pod(cpu="64"), ["asks for cpu 64", "cpu: 3920m", "ask for less"]),
        (pod(memory="100Gi"), ["asks for memory 100Gi", "cpu: 13621Mi"]),
        (pod("l4", gpu="1", cpu="12"), ["asks for cpu 12", "l4: 7910m"]),
        (pod(gpu="1", memory="2Ti"), ["asks for memory 2Ti", "l4: ", "h100: "]),
        (pod(gpu="16"), ["asks for 16 GPUs", "l4: 1", "h100: 8", "more pods"]),
        # In the l4 pool there are too few GPUs, in the h100 pool too little CPU.
        (pod(gpu="2", cpu="300"), ["asks for 2 GPUs and cpu 300", "l4: 1 GPU", "h100: cpu 95690m"]),
        # A node with GPUs is no place for it: it does not tolerate their taint.
        (pod(cpu="5"), ["asks for cpu 5", "cpu: 3920m"]),
    ],
)
def test_a_pod_that_no_node_can_hold_is_refused(kind: str, template: Json, words: list[str]) -> None:
    spec = job(template) if kind in BATCH else described(kind, ray((1, template)))
    message = refusal(review(kind, spec))
    for word in words:
        assert word in message, message


@pytest.mark.parametrize("kind", RAY)
def test_a_gang_larger_than_what_its_queue_can_hold_is_refused(kind: str) -> None:
    """Two groups of which each would fit, and a head of one CPU."""
    allowance = Allowance(quota={"cpu": Amount(cpu=Millicores(8000))}, borrow=Limit(otherwise=Bound.NONE))
    stack = two_teams(allowance)
    small, large = (3, pod(cpu="1")), (5, pod(cpu="1"))
    assert review(kind, described(kind, ray(small, small)), stack) == Allow()
    message = refusal(review(kind, described(kind, ray(small, large)), stack))
    assert "in all it asks for cpu 9 of pool cpu, and queue default can hold at most cpu 8" in message
    assert "ask for less, or have its quota raised" in message


@pytest.mark.parametrize("mode", ["", "K8sJobMode", "SidecarMode"])
def test_the_container_that_submits_counts_as_kueue_counts_it(mode: str) -> None:
    """KubeRay gives it half a CPU where the RayJob has no template of its own for it."""
    allowance = Allowance(quota={"cpu": Amount(cpu=Millicores(2400))}, borrow=Limit(otherwise=Bound.NONE))
    stack = two_teams(allowance)
    spec = {"rayClusterSpec": ray((1, pod(cpu="1"))), "shutdownAfterJobFinishes": True}
    assert review("rayjob", spec | {"submissionMode": "HTTPMode"}, stack) == Allow()
    message = refusal(review("rayjob", spec | ({"submissionMode": mode} if mode else {}), stack))
    assert "in all it asks for cpu 2500m of pool cpu, and queue default can hold at most cpu 2400m" in message
    if mode != "SidecarMode":
        small = {"submitterPodTemplate": pod(cpu="400m")}
        assert review("rayjob", spec | small, stack) == Allow()


def test_gpus_of_one_group_come_from_one_pool() -> None:
    """8 of l4 and 16 of h100 are 24, and yet there is nowhere to put one group of 20."""
    assert review("raycluster", ray((16, pod(gpu="1")), (8, pod("l4", gpu="1")))) == Allow()
    message = refusal(review("raycluster", ray((20, pod(gpu="1")))))
    assert "asks for 20 GPUs, and" in message
    assert "at most 16" in message


def test_groups_that_can_only_go_to_one_pool_are_summed_there() -> None:
    """Only nodes of h100 have two GPUs: nothing but the shape of its pods binds a group to it."""
    message = refusal(review("raycluster", ray((5, pod(gpu="2")), (5, pod(gpu="2")))))
    assert "in all it asks for 20 GPUs of pool h100, and queue default can hold at most 16" in message


def test_pods_that_leave_a_part_of_their_nodes_empty_need_more_of_them() -> None:
    """19.6 CPU in five nodes hold five pods of 3 CPU, not six."""
    assert review("job", job(pod(cpu="3"), 5)) == Allow()
    message = refusal(review("job", job(pod(cpu="3"), 6)))
    assert "main needs 6 nodes" in message
    assert "cpu: 5" in message


@pytest.mark.parametrize("kind", [*RAY, *BATCH])
@pytest.mark.parametrize("resource", ["example.com/fpga", "hugepages-2Mi", "ephemeral-storage"])
def test_a_resource_without_a_quota_is_refused(kind: str, resource: str) -> None:
    template = pod(cpu="1")
    template["spec"]["containers"][0]["resources"]["limits"] = {resource: "1"}
    spec = job(template) if kind in BATCH else described(kind, ray((1, template)))
    message = refusal(review(kind, spec))
    assert f"asks for {resource}, of which queue default has no quota" in message
    assert "it has cpu, memory, nvidia.com/gpu" in message
    assert f"remove {resource}" in message


def test_none_of_a_resource_is_not_asked_for() -> None:
    assert review("job", job(pod(cpu="1", **{"example.com/fpga": "0"}))) == Allow()


def test_a_resource_with_a_quota_is_bounded_by_it() -> None:
    stack = two_teams(
        Allowance(
            quota={
                "l4": Amount(gpus=Gpus(8), others={"ephemeral-storage": Quantity.parse("100Gi")}),
                "cpu": Amount(cpu=None, others={"ephemeral-storage": Quantity.parse("50Gi")}),
            }
        )
    )
    ok = pod("l4", gpu="1", **{"ephemeral-storage": "20Gi"})
    assert review("job", job(ok, 5), stack) == Allow()
    message = refusal(review("job", job(ok, 6), stack))
    assert "in all it asks for ephemeral-storage 120Gi of pool l4," in message
    assert "at most ephemeral-storage 100Gi" in message


def test_a_pod_larger_than_the_disk_of_a_node_is_refused_where_a_quota_covers_disks() -> None:
    stack = two_teams(
        Allowance(quota={"l4": Amount(gpus=Gpus(8), others={"ephemeral-storage": Quantity.parse("9Ti")})})
    )
    message = refusal(review("job", job(pod("l4", gpu="1", **{"ephemeral-storage": "300Gi"})), stack))
    assert "asks for ephemeral-storage 300Gi" in message
    assert "l4: 200Gi" in message


def test_a_quota_of_its_own_group_counts_as_one() -> None:
    licences = Group(
        covered_resources=("example.com/licence",),
        flavors=(
            FlavorQuota(
                name="vendor", resources=(Quota(name="example.com/licence", nominal=Quantity.parse("2")),)
            ),
        ),
    )
    department = STACK.departments[0]
    team = department.teams[0]
    team = replace(team, kueue=replace(team.kueue, resource_groups=(licences,)))
    stack = replace(STACK, departments=(replace(department, teams=(team, *department.teams[1:])),))
    assert review("job", job(pod(cpu="1", **{"example.com/licence": "1"}), 2), stack) == Allow()
    message = refusal(review("job", job(pod(cpu="1", **{"example.com/licence": "1"}), 3), stack))
    assert "it asks for example.com/licence 3" in message
    assert "at most example.com/licence 2" in message


def test_resources_that_kueue_does_not_count_need_no_quota() -> None:
    stack = replace(STACK, kueue=KueueOptions(exclude_resources=("example.com/",)))
    assert review("job", job(pod(cpu="1", **{"example.com/fpga": "1"})), stack) == Allow()
    assert "hugepages-2Mi" in refusal(review("job", job(pod(cpu="1", **{"hugepages-2Mi": "2Mi"})), stack))


def test_interfaces_and_huge_pages_of_a_pool_with_efa_need_no_quota() -> None:
    stack = load(Path(__file__).parents[3] / "stacks" / "Pulumi.eks-prod.yaml")
    assert queuetree.queue_tree(stack).uncounted == ("vpc.amazonaws.com/efa", "hugepages-")
    assert manager_config(stack)["resources"] == {
        "excludeResourcePrefixes": ["vpc.amazonaws.com/efa", "hugepages-"]
    }


def test_a_kueue_that_is_not_ours_may_count_other_resources() -> None:
    stack = replace(STACK, kueue=KueueOptions(install=False))
    assert review("job", job(pod(cpu="1", **{"example.com/fpga": "1"})), stack) == Allow()


def test_a_pod_with_gpus_has_to_tolerate_their_taint() -> None:
    template = pod(gpu="1")
    del template["spec"]["tolerations"]
    message = refusal(review("job", job(template)))
    assert "does not tolerate the taint nvidia.com/gpu" in message
    assert "tolerations" in message


def test_a_flavor_that_tolerates_the_taint_itself_takes_any_pod() -> None:
    tolerates = replace(L4.kueue, tolerations=(Toleration(key="nvidia.com/gpu", operator=Operator.EXISTS),))
    stack = replace(STACK, pools=(CPU, replace(L4, kueue=tolerates)))
    template = pod(gpu="1", cpu="6")
    del template["spec"]["tolerations"]
    assert review("job", job(template), stack) == Allow()
    assert review("job", job(pod(cpu="6")), stack) == Allow()


def test_with_kai_a_node_and_the_limit_of_the_queue_count() -> None:
    stack = replace(STACK, scheduler=Scheduler.KAI)
    large = ray((1, pod(gpu="1", cpu="300")))
    assert "h100: 95690m" in refusal(review("raycluster", large, stack, queue="team-a-h100"))
    many = ray((20, pod(gpu="1")))
    assert "at most 16" in refusal(review("raycluster", many, stack, queue="team-a-h100"))
    # A CPU pod may run on a node with GPUs, and a resource that no queue counts may be a node's own.
    plain = pod(cpu="64", **{"example.com/fpga": "1"})
    assert review("raycluster", ray((1, plain)), stack, queue="team-a-h100") == Allow()


def test_the_job_of_a_cron_job_is_reviewed_when_it_is_made() -> None:
    """Its template may have been changed since, and Kueue queues the Job, not the CronJob."""
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "controller": True}
    assert "cpu 64" in refusal(review("job", job(pod(cpu="64")), owner=owner))
    of_a_job_set = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "controller": True}
    assert review("job", job(pod(cpu="64")), owner=of_a_job_set) == Allow()


def test_objects_of_an_older_program_bound_gpus_alone() -> None:
    """While the cluster is upgraded the webhooks may read what the last version of the program wrote."""
    policy = from_spec(json.loads(json.dumps(gang.policy(STACK)["spec"])), is_stored=True)
    assert isinstance(policy, GangPolicy)
    older = replace(policy, flavors=tuple(replace(each, per_node={}) for each in policy.flavors))
    spec = json.loads(json.dumps(queuetree.tree(STACK)["spec"]))
    for space in spec["namespaces"]:
        for queue in space["queues"]:
            del queue["limits"]
    tree = tree_from_spec(spec)
    assert judge("job", job(pod(cpu="64", **{"example.com/fpga": "1"})), older, tree) == Allow()
    assert "16 GPUs" in refusal(judge("job", job(pod(gpu="16")), older, tree))
    assert "at most 16" in refusal(judge("job", job(pod(gpu="1"), 20), None, tree))


def test_the_pods_of_a_gang_by_placeholders_count_together() -> None:
    flavor = flavor_policy("l4", 1, provisioning_class_name=PLACEHOLDER_CLASS, max_nodes=0)
    pools = Pools(policy=GangPolicy(flavors=(flavor,)))

    def pod_set(name: str) -> JobPodSet:
        tolerated = frozenset({names.GPU_RESOURCE})
        return JobPodSet(
            name=name,
            count=3_000,
            amounts={names.GPU_RESOURCE: Fraction(1)},
            pool="l4",
            tolerated=tolerated,
        )

    assert not [*never_fits_anywhere([pod_set("a")], pools)]
    (reason,) = never_fits_anywhere([pod_set("a"), pod_set("b")], pools)
    assert "the gang has 6000 pods" in reason


@pytest.mark.parametrize(("head", "is_refused"), [("l4", True), ("cpu", False)])
def test_pods_that_keep_off_a_node_may_share_it_with_no_other_of_the_gang_either(
    head: str, is_refused: bool
) -> None:
    """The controller says the same of placeholders, when nodes were to be asked for."""
    node = {"per_node": {"cpu": "4"}, "max_nodes": 0}
    flavors = (
        flavor_policy("l4", 1, provisioning_class_name=PLACEHOLDER_CLASS, **node),
        flavor_policy("cpu", 0, provisioning_class_name="", gpus_per_node=0, **node),
    )

    def pod_set(name: str, pool: str, gpus: int, **more: Any) -> JobPodSet:
        amounts = {names.GPU_RESOURCE: Fraction(gpus), "cpu": Fraction(1)}
        tolerated = frozenset({names.GPU_RESOURCE})
        return JobPodSet(name=name, count=2, amounts=amounts, pool=pool, tolerated=tolerated, **more)

    apart = pod_set("workers", "l4", 1, uncopied=(Uncopied(field="hostPort", on_one_node=True),))
    reasons = [
        *never_fits_anywhere([apart, pod_set("head", head, 0)], Pools(policy=GangPolicy(flavors=flavors)))
    ]
    assert ["workers has hostPort" in each for each in reasons] == [True] * is_refused
