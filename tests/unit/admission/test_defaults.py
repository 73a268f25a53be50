"""What a new job is given, and that it is given it once; and what its queue can never hold."""

import copy
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from muster.controller.kube.resource import Object
from muster.controller.kueue.defaults import Defaults
from muster.controller.kueue.webhooks import Reviews
from muster.controller.runtime.review import Allow, Deny, Patch, Request, Verdict, _UserInfo, question
from muster.model import names
from muster.model.gangpolicy import FlavorPolicy, GangPolicy
from muster.model.queues import Allowance
from muster.model.queuetree import ANY_POOL, Queue, QueueTree, Space, crd, from_spec, to_manifest
from muster.model.stack import Scheduler
from muster.render.tenancy.policies.pods import pods
from tests.unit.model.model_stacks import two_teams

Json = dict[str, Any]
GATE = {"name": names.GANG_GATE}
GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
TPU_TOLERATION = {"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}
ONE = Space(
    team="team-a", queues=(Queue(name="gpus", most={"l4": 2}),), priorities=("dev",), default_priority="dev"
)
TWO = Space(team="team-b", queues=(Queue(name="a"), Queue(name="b")))
KUEUE = QueueTree(guarded=True, spaces={"one": ONE, "two": TWO})
KAI = QueueTree(
    kai=True,
    gated=True,
    spaces={"one": Space(team="t", queues=(Queue(name="leaf", most={ANY_POOL: 4}),)), "two": TWO},
)


def pod(gpus: int = 0, **spec: Any) -> Json:
    amounts = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {"spec": {"containers": [{"name": "c", "resources": {"limits": amounts}}], **spec}}


def cluster(workers: int = 1, **group: Any) -> Json:
    return {
        "rayVersion": "2.54.0",
        "headGroupSpec": {"template": pod()},
        "workerGroupSpecs": [{"groupName": "w", "replicas": workers, "template": pod(1), **group}],
    }


BODIES: dict[str, Json] = {
    "rayjob": {
        "spec": {"rayClusterSpec": cluster(), "shutdownAfterJobFinishes": True, "submissionMode": "HTTPMode"}
    },
    "raycluster": {"spec": cluster()},
    "rayservice": {"spec": {"rayClusterConfig": cluster()}},
    "job": {"spec": {"template": pod(1)}},
}


def ray_of(spec: Json) -> Json:
    """The description of the Ray cluster in whichever kind."""
    found: Json = spec.get("rayClusterSpec") or spec.get("rayClusterConfig") or spec
    return found


def body(kind: str, **labels: str) -> Json:
    return copy.deepcopy(BODIES[kind]) | {"metadata": {"name": "j", "labels": labels}}


def default(
    tree: QueueTree,
    kind: str,
    obj: Json,
    *,
    namespace: str = "one",
    group: str = "",
    before: Json | None = None,
    policy: GangPolicy | None = None,
) -> Verdict:
    listed = Defaults(lambda: tree, lambda: policy).listed()
    webhook = next(each for each in listed if each.path == f"/default-{kind}")
    request = Request(
        uid="u",
        operation="CREATE" if before is None else "UPDATE",
        namespace=namespace,
        object=msgspec.Raw(json.dumps(obj).encode()),
        old_object=msgspec.Raw(json.dumps(before).encode()),
        user_info=_UserInfo(groups=[group]),
    )
    return webhook.review(question(request, Object))


def patched(obj: Json, verdict: Verdict) -> Json:
    """The object after its patch, as the API server applies it: `add` alone, into what is there."""
    found = copy.deepcopy(obj)
    assert isinstance(verdict, Patch)
    for operation in verdict.operations:
        assert operation["op"] == "add"
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"][1:].split("/"))
        at: Any = found
        for part in way:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if isinstance(at, list):
            at.append(copy.deepcopy(operation["value"]))
        else:
            at[last] = copy.deepcopy(operation["value"])
    return found


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("tree", [KUEUE, KAI], ids=["kueue", "kai"])
def test_what_is_missing_is_there_after_one_patch_and_a_second_changes_nothing(
    tree: QueueTree, kind: str
) -> None:
    bare = body(kind)
    del bare["metadata"]["labels"]
    found = patched(bare, default(tree, kind, bare))
    label = names.KAI_QUEUE_LABEL if tree.kai else names.QUEUE_LABEL
    assert found["metadata"]["labels"][label] == ("leaf" if tree.kai else "gpus")
    assert default(tree, kind, found) == Allow()


def test_every_pod_of_a_kai_gang_is_born_behind_the_gate_beside_gates_of_its_own() -> None:
    mine = body("rayjob")
    mine["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["schedulingGates"] = [{"name": "x"}]
    found = patched(mine, default(KAI, "rayjob", mine))["spec"]["rayClusterSpec"]
    assert found["headGroupSpec"]["template"]["spec"]["schedulingGates"] == [{"name": "x"}, GATE]
    assert found["workerGroupSpecs"][0]["template"]["spec"]["schedulingGates"] == [GATE]


def test_the_policy_of_pods_promises_the_gate_to_the_kinds_that_get_it() -> None:
    stack = replace(two_teams(Allowance()), scheduler=Scheduler.KAI)
    message = next(rule.message for rule in pods(stack).rules if names.GANG_GATE in rule.message)
    promised = re.findall(r"\w+", message.split(" is created")[0])
    for title in ("RayJob", "RayCluster", "RayService", "Job"):
        kind = title.lower()
        assert title in promised
        assert names.GANG_GATE in str(default(KAI, kind, body(kind)))


def test_kueue_stacks_get_no_gate_and_ray_gets_its_token_and_the_default_priority() -> None:
    found = patched(body("raycluster"), default(KUEUE, "raycluster", body("raycluster")))
    assert "schedulingGates" not in str(found)
    assert found["spec"]["authOptions"] == {"mode": "token"}
    assert found["metadata"]["labels"][names.PRIORITY_LABEL] == "dev"


@pytest.mark.parametrize("kind", BODIES)
def test_autoscalers_leave_the_nodes_of_a_gang_s_pods_alone(kind: str) -> None:
    spec = patched(body(kind), default(KUEUE, kind, body(kind)))["spec"]
    ray = ray_of(spec)
    for each in (spec,) if kind == "job" else (ray["headGroupSpec"], *ray["workerGroupSpecs"]):
        assert each["template"]["metadata"]["annotations"] == {
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            "karpenter.sh/do-not-disrupt": "true",
        }


def test_a_job_that_may_be_moved_says_so_itself() -> None:
    mine = body("job")
    key = "cluster-autoscaler.kubernetes.io/safe-to-evict"
    mine["spec"]["template"]["metadata"] = {"annotations": {key: "true"}}
    assert (
        patched(mine, default(KUEUE, "job", mine))["spec"]["template"]["metadata"]["annotations"][key]
        == "true"
    )


RAY_KINDS = ("rayjob", "raycluster", "rayservice")


def applied_again(kind: str, live: Json) -> Json:
    """The same manifest applied once more: a list of worker groups is replaced whole, a mapping is merged."""
    ray_of(live["spec"])["workerGroupSpecs"] = cluster()["workerGroupSpecs"]
    return live


@pytest.mark.parametrize("kind", RAY_KINDS)
@pytest.mark.parametrize("tree", [KUEUE, KAI], ids=["kueue", "kai"])
def test_a_manifest_that_is_applied_again_changes_nothing(tree: QueueTree, kind: str) -> None:
    live = patched(body(kind), default(tree, kind, body(kind)))
    again = applied_again(kind, copy.deepcopy(live))
    assert again != live
    assert patched(again, default(tree, kind, again, before=live)) == live


@pytest.mark.parametrize("kind", RAY_KINDS)
def test_a_change_gives_an_object_from_before_nothing(kind: str) -> None:
    live = body(kind)
    again = applied_again(kind, copy.deepcopy(live))
    assert default(KUEUE, kind, again, before=live) == Allow()


def test_a_group_that_is_added_gets_what_a_new_one_gets() -> None:
    live = patched(body("raycluster"), default(KUEUE, "raycluster", body("raycluster")))
    more = copy.deepcopy(live)
    more["spec"]["workerGroupSpecs"].append({"groupName": "more", "replicas": 1, "template": pod(1)})
    found = patched(more, default(KUEUE, "raycluster", more, before=live))["spec"]["workerGroupSpecs"]
    assert found[1]["template"]["spec"]["tolerations"] == [GPU_TOLERATION]
    assert found[1]["template"]["metadata"]["annotations"] == names.UNDISTURBED


def test_pods_with_tpus_get_the_toleration_of_tpus_alone() -> None:
    mine = body("job")
    mine["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"google.com/tpu": "4"}}
    found = patched(mine, default(KUEUE, "job", mine))["spec"]["template"]["spec"]
    assert found["tolerations"] == [TPU_TOLERATION]


@pytest.mark.parametrize(
    "held",
    [
        {"operator": "Exists", "effect": "NoExecute"},
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "absent", "effect": "NoSchedule"},
    ],
)
def test_a_toleration_of_something_else_is_no_toleration_of_gpus(held: Json) -> None:
    mine = body("job")
    mine["spec"]["template"]["spec"]["tolerations"] = [held]
    found = patched(mine, default(KUEUE, "job", mine))["spec"]["template"]["spec"]
    assert found["tolerations"] == [held, GPU_TOLERATION]


def test_the_pod_that_submits_a_ray_job_is_left_alone_by_autoscalers_too() -> None:
    mine = body("rayjob")
    mine["spec"]["submitterPodTemplate"] = pod()
    found = patched(mine, default(KAI, "rayjob", mine))["spec"]["submitterPodTemplate"]
    assert found["metadata"]["annotations"] == names.UNDISTURBED
    # It is no Ray node, and the gang does not wait for it.
    assert "schedulingGates" not in found["spec"]


def test_what_a_job_says_itself_stays() -> None:
    said = body("job", **{names.QUEUE_LABEL: "others", names.PRIORITY_LABEL: "prod"})
    said["spec"]["template"]["spec"]["tolerations"] = [{"key": names.GPU_TAINT_KEY, "operator": "Exists"}]
    said["spec"]["template"]["metadata"] = {"annotations": dict(names.UNDISTURBED)}
    assert default(KUEUE, "job", said) == Allow()
    kept: Json = {"shutdownAfterJobFinishes": False, "rayClusterSpec": cluster()}
    kept["rayClusterSpec"] |= {"rayVersion": "2.60.0", "authOptions": {"mode": "disabled"}}
    found = patched(
        body("rayjob") | {"spec": kept}, default(KUEUE, "rayjob", body("rayjob") | {"spec": kept})
    )
    assert found["spec"]["shutdownAfterJobFinishes"] is False
    assert found["spec"]["rayClusterSpec"]["rayVersion"] == "2.60.0"
    assert found["spec"]["rayClusterSpec"]["authOptions"] == {"mode": "disabled"}


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("held", [None, [], [{"key": "mine", "operator": "Exists"}]])
def test_pods_that_request_gpus_tolerate_the_taint_of_their_nodes(kind: str, held: list[Json] | None) -> None:
    def with_gpus(spec: Json) -> Json:
        groups: list[Json] = ray_of(spec).get("workerGroupSpecs", [spec])
        return groups[0]

    obj = body(kind)
    if held is not None:
        with_gpus(obj["spec"])["template"]["spec"]["tolerations"] = held
    found = patched(obj, default(KUEUE, kind, obj))["spec"]
    assert with_gpus(found)["template"]["spec"]["tolerations"] == [*(held or ()), GPU_TOLERATION]
    if kind != "job":
        assert "tolerations" not in ray_of(found)["headGroupSpec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("image", "version", "mode"),
    [
        ("rayproject/ray:2.54.0", "2.54.0", "token"),
        ("registry.test:5000/rayproject/ray-ml:2.53.0-py311-gpu", "2.53.0", "token"),
        # KubeRay fails an older release that is asked for a token.
        ("rayproject/ray:2.9.0", "2.9.0", None),
        ("rayproject/ray:nightly", None, None),
        ("team/training:2.54.0", None, None),
    ],
)
def test_ray_s_release_is_read_from_the_image_and_gets_a_token_if_it_knows_one(
    image: str, version: str | None, mode: str | None
) -> None:
    obj = body("raycluster")
    del obj["spec"]["rayVersion"]
    obj["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = image
    found = patched(obj, default(KUEUE, "raycluster", obj))["spec"]
    assert found.get("rayVersion") == version
    assert found.get("authOptions", {}).get("mode") == mode


def test_a_ray_job_shuts_its_cluster_down_unless_it_selects_one() -> None:
    obj = body("rayjob")
    del obj["spec"]["shutdownAfterJobFinishes"]
    assert patched(obj, default(KUEUE, "rayjob", obj))["spec"]["shutdownAfterJobFinishes"] is True
    others: list[Json] = [{"clusterSelector": {"ray.io/cluster": "one"}}, {"deletionStrategy": {}}]
    for other in others:
        selecting = body("rayjob") | {"spec": other}
        found = patched(selecting, default(KUEUE, "rayjob", selecting))
        assert "shutdownAfterJobFinishes" not in found["spec"]


def test_a_kai_queue_that_takes_no_work_becomes_the_only_one_or_is_refused() -> None:
    inner = body("raycluster", **{names.KAI_QUEUE_LABEL: "research"})
    found = patched(inner, default(KAI, "raycluster", inner))
    assert found["metadata"]["labels"][names.KAI_QUEUE_LABEL] == "leaf"
    refused = default(KAI, "raycluster", inner, namespace="two")
    assert isinstance(refused, Deny)
    assert "research accepts no work" in refused.message
    assert "one of: a, b" in refused.message


def test_among_several_queues_nobody_guesses() -> None:
    refused = default(KUEUE, "rayjob", body("rayjob"), namespace="two")
    assert isinstance(refused, Deny)
    assert "one of: a, b" in refused.message


@pytest.mark.parametrize("pools", [(), ("l4",), ("l4", "h100")])
def test_kueue_s_default_queue_takes_what_names_no_queue_whatever_pools_it_names(
    pools: Sequence[str],
) -> None:
    """A queue of Kueue is of no pool, and a gang of it may live in several."""
    space = Space(team="t", queues=(Queue(name="default"), Queue(name="other")))
    obj = body("raycluster")
    groups = [
        {"groupName": pool, "replicas": 1, "template": pod(1, nodeSelector={names.POOL_LABEL: pool})}
        for pool in pools
    ]
    obj["spec"]["workerGroupSpecs"] = groups
    found = patched(obj, default(QueueTree(spaces={"one": space}), "raycluster", obj))
    assert found["metadata"]["labels"][names.QUEUE_LABEL] == "default"


SHARDS = (
    Queue(name="t-cpu", pool="cpu"),
    Queue(name="t-l4", pool="l4", gpus=1, most={ANY_POOL: 4}),
    Queue(name="t-h100", pool="h100", gpus=8, most={ANY_POOL: 16}),
)
SHARDED = QueueTree(kai=True, gated=True, spaces={"one": Space(team="t", queues=SHARDS)})


def _of(gpus: int, *, pool: str = "", **labels: str) -> Json:
    """A Ray cluster whose workers ask for so many GPUs each."""
    spec = {"nodeSelector": {names.POOL_LABEL: pool}} if pool else {}
    return body("raycluster", **labels) | {"spec": cluster(template=pod(gpus, **spec))}


@pytest.mark.parametrize(
    ("obj", "chosen"),
    [
        # The pool that the object or one of its pods names.
        (_of(1, **{names.POOL_LABEL: "l4"}), "t-l4"),
        (_of(1, pool="h100"), "t-h100"),
        # No other node has eight, and only one has none.
        (_of(8), "t-h100"),
        (_of(0), "t-cpu"),
        # Named already: only the pool is missing.
        (_of(1, **{names.KAI_QUEUE_LABEL: "t-l4"}), "t-l4"),
    ],
)
def test_among_kai_s_queues_of_pools_the_one_is_chosen_that_the_gang_says_or_needs(
    obj: Json, chosen: str
) -> None:
    found = patched(obj, default(SHARDED, "raycluster", obj))
    assert found["metadata"]["labels"][names.KAI_QUEUE_LABEL] == chosen
    assert found["metadata"]["labels"][names.POOL_LABEL] == chosen.removeprefix("t-")
    assert default(SHARDED, "raycluster", found) == Allow()


def test_a_part_of_a_gpu_is_of_one() -> None:
    obj = _of(0)
    obj["spec"]["workerGroupSpecs"][0]["template"]["metadata"] = {"annotations": {"gpu-fraction": "0.5"}}
    assert isinstance(default(SHARDED, "raycluster", obj), Deny)


def test_only_with_kai_a_part_of_a_gpu_opens_the_nodes_that_have_one() -> None:
    """Kueue counts no GPU for it, so a queued pool that it was sent to would get no node, for ever."""
    obj = body("job")
    obj["spec"]["template"] = pod() | {"metadata": {"annotations": {"gpu-fraction": "0.5"}}}
    assert "tolerations" not in patched(obj, default(KUEUE, "job", obj))["spec"]["template"]["spec"]
    with_kai = patched(obj, default(KAI, "job", obj))["spec"]["template"]["spec"]
    assert with_kai["tolerations"] == [GPU_TOLERATION]


@pytest.mark.parametrize(
    "obj", [_of(1), _of(9), _of(1, pool="t4"), _of(1, pool="l4", **{names.POOL_LABEL: "h100"})]
)
def test_where_several_pools_would_do_or_none_nobody_guesses(obj: Json) -> None:
    refused = default(SHARDED, "raycluster", obj)
    assert isinstance(refused, Deny)
    assert "one of: t-cpu, t-l4, t-h100" in refused.message


def test_other_namespaces_and_what_kuberay_makes_are_left_alone() -> None:
    assert default(KUEUE, "job", body("job"), namespace="kube-system") == Allow()
    made = default(KUEUE, "raycluster", body("raycluster"), group="system:serviceaccounts:ray-system")
    assert made == Allow()
    assert default(QueueTree(), "job", body("job")) == Allow()


@pytest.mark.parametrize("tree", [KUEUE, KAI], ids=["kueue", "kai"])
@pytest.mark.parametrize(
    "broken",
    [
        {"spec": None},
        {"spec": "x"},
        {"spec": {"headGroupSpec": None}},
        {"spec": {"headGroupSpec": "x"}},
        {"spec": {"workerGroupSpecs": 1}},
        {"spec": {"authOptions": "token"}},
        {"spec": {"upgradeStrategy": "None"}},
        {"spec": {"headGroupSpec": {"template": {"spec": {"schedulingGates": 1, "containers": 1}}}}},
        {"metadata": {}},
    ],
)
@pytest.mark.parametrize("kind", ["raycluster", "rayservice"])
def test_a_malformed_object_is_left_to_the_api_server(tree: QueueTree, kind: str, broken: Json) -> None:
    """Its schema is asked after us: a review that failed would wake somebody up for a user's slip."""
    assert isinstance(default(tree, kind, body(kind) | broken), Allow | Patch)


def test_a_malformed_field_is_not_patched_within() -> None:
    obj = body("rayservice") | {"spec": {"upgradeStrategy": "None"}}
    verdict = default(KUEUE, "rayservice", obj)
    assert isinstance(verdict, Patch)
    assert not [each for each in verdict.operations if each["path"].startswith("/spec/upgradeStrategy")]


def judge(tree: QueueTree, kind: str, obj: Json) -> Verdict:
    webhook: Any = next(each for each in Reviews(lambda: None, lambda: tree).listed() if kind in each.path)
    raw = msgspec.Raw(json.dumps(obj).encode())
    verdict: Verdict = webhook.review(
        question(Request(uid="u", operation="CREATE", namespace="one", object=raw), webhook.type)
    )
    return verdict


def _changed(kind: str, **spec: Any) -> Json:
    obj = body(kind, **{names.QUEUE_LABEL: "gpus"})
    obj["spec"] |= spec
    return obj


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (_changed("raycluster", **cluster(3)), ["3 GPUs", "queue gpus can hold at most 2"]),
        (
            _changed("raycluster", **cluster(1, template=pod(1, nodeSelector={"muster.dev/pool": "h100"}))),
            ["of pool h100", "at most 0"],
        ),
    ],
)
def test_what_its_queue_can_never_hold_is_refused_with_what_it_can(obj: Json, words: list[str]) -> None:
    verdict = judge(KUEUE, "raycluster", obj)
    assert isinstance(verdict, Deny)
    for word in words:
        assert word in verdict.message


def test_what_fits_its_queue_passes() -> None:
    assert judge(KUEUE, "raycluster", _changed("raycluster", **cluster(2))) == Allow()


def test_a_tree_is_read_as_it_was_written() -> None:
    assert from_spec(to_manifest(KUEUE)["spec"]) == KUEUE
    assert from_spec(to_manifest(KAI)["spec"]) == KAI
    assert from_spec(to_manifest(SHARDED)["spec"]) == SHARDED
    assert crd()["metadata"]["name"] == "queuetrees.muster.dev"


SIZES = GangPolicy(
    flavors=tuple(
        FlavorPolicy(name=name, gpus_per_node=gpus) for name, gpus in (("l4", 2), ("a100", 8), ("h100", 8))
    )
)
BOTH = replace(KUEUE, spaces={"one": replace(ONE, queues=(Queue(name="gpus"),))})
NOT_L4 = {"key": names.POOL_LABEL, "operator": "NotIn", "values": ["l4"]}
SPOT = {"key": "cloud.google.com/gke-spot", "operator": "DoesNotExist"}


def demanding(gpus: int, *terms: Json) -> Json:
    """A Job of such pods, with these terms of required node affinity."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    more = {"affinity": {"nodeAffinity": required}} if terms else {}
    return {"metadata": {"name": "j", "labels": {}}, "spec": {"template": pod(gpus, **more)}}


def terms_of(obj: Json) -> list[Json]:
    rules = obj["spec"]["template"]["spec"].get("affinity", {}).get("nodeAffinity", {})
    found: list[Json] = rules.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get(
        "nodeSelectorTerms", []
    )
    return found


@pytest.mark.parametrize(("gpus", "terms"), [(2, []), (8, [{"matchExpressions": [NOT_L4]}]), (9, [])])
def test_a_pod_keeps_off_pools_whose_nodes_are_too_small(gpus: int, terms: list[Json]) -> None:
    """Kueue gives the first pool with quota; its nodes may hold no such pod. What fits nowhere is refused."""
    body = demanding(gpus)
    found = patched(body, default(BOTH, "job", body, policy=SIZES))
    assert terms_of(found) == terms
    assert default(BOTH, "job", found, policy=SIZES) == Allow()


def test_it_keeps_off_them_beside_what_its_author_demands_of_nodes() -> None:
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    body = demanding(8, {"matchExpressions": [SPOT]}, fields)
    found = patched(body, default(BOTH, "job", body, policy=SIZES))
    assert terms_of(found) == [{"matchExpressions": [SPOT, NOT_L4]}, {**fields, "matchExpressions": [NOT_L4]}]


def test_a_term_that_matches_no_node_is_given_no_meaning() -> None:
    body = demanding(8, {"matchExpressions": [SPOT]}, {})
    found = patched(body, default(BOTH, "job", body, policy=SIZES))
    assert terms_of(found) == [{"matchExpressions": [SPOT, NOT_L4]}, {}]
    assert default(BOTH, "job", demanding(8, {}), policy=SIZES) == default(BOTH, "job", demanding(9, {}))


def test_what_is_applied_again_goes_on_keeping_off_them() -> None:
    body = demanding(8)
    before = patched(body, default(BOTH, "job", body, policy=SIZES))
    again = patched(body, default(BOTH, "job", body, before=before, policy=SIZES))
    assert terms_of(again) == terms_of(before) != []


@pytest.mark.parametrize("kind", ["rayjob", "raycluster", "rayservice"])
def test_no_group_of_ray_lacks_what_kueue_would_write_null_for(kind: str) -> None:
    found = ray_of(patched(body(kind), default(KUEUE, kind, body(kind)))["spec"])
    groups = (found["headGroupSpec"], *found["workerGroupSpecs"])
    assert [each["rayStartParams"] for each in groups] == [{}, {}]
