"""What is refused at creation is what could never run, and the answer says how to mend it."""

import gc
import json
import tracemalloc
from typing import Any

import msgspec
import pytest

from muster.controller.kueue.jobs import RayJob
from muster.controller.kueue.webhooks import Reviews
from muster.controller.runtime.review import Allow, Deny, Operation, Request, Verdict, question
from muster.model.gangpolicy import FlavorPolicy, GangPolicy

POLICY = GangPolicy(
    flavors=(
        FlavorPolicy(name="l4", max_nodes=2, gpus_per_node=1),
        FlavorPolicy(name="h100", max_nodes=4, gpus_per_node=8),
        FlavorPolicy(name="cpu", max_nodes=9),
    )
)


def template(gpus: int, pool: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus} if gpus else {}}}]
    }
    return {"spec": spec | ({"nodeSelector": {"muster.dev/pool": pool}} if pool else {})}


def cluster(*groups: tuple[str, int, int, str]) -> dict[str, Any]:
    """`groups`: (name, replicas, GPUs a pod, pool)."""
    return {
        "headGroupSpec": {"template": template(0)},
        "workerGroupSpecs": [
            {"groupName": name, "replicas": replicas, "template": template(gpus, pool)}
            for name, replicas, gpus, pool in groups
        ],
    }


def ray_job(name: str = "train", **spec: Any) -> dict[str, Any]:
    usual = {"shutdownAfterJobFinishes": True, "rayClusterSpec": cluster(("w", 2, 1, ""))}
    return {"metadata": {"name": name}, "spec": usual | spec}


def review(
    kind: str, obj: dict[str, Any], *, operation: Operation = "CREATE", old: dict[str, Any] | None = None
) -> Verdict:
    reviews = Reviews(lambda: POLICY)
    webhook = next(item for item in reviews.listed() if item.path == f"/validate-{kind}")
    body, before = (msgspec.Raw(json.dumps(each).encode()) for each in (obj, old))
    request = Request(uid="u", operation=operation, object=body, old_object=before)
    review: Any = webhook.review
    verdict: Verdict = review(question(request, webhook.type))
    return verdict


@pytest.mark.parametrize(
    ("kind", "obj", "words"),
    [
        ("rayjob", ray_job(rayClusterSpec=cluster(("w", 33, 1, ""))), ["maxNodes"]),
        (
            "rayjob",
            ray_job(rayClusterSpec=cluster(("a", 1, 1, "l4"), ("b", 2, 1, "l4"))),
            ["the gang needs 3 nodes", "l4: 2"],
        ),
        (
            "job",
            {"metadata": {"name": "j"}, "spec": {"parallelism": 40, "template": template(1)}},
            ["maxNodes"],
        ),
    ],
)
def test_what_could_never_run_is_refused_with_what_would(
    kind: str, obj: dict[str, Any], words: list[str]
) -> None:
    verdict = review(kind, obj)
    assert isinstance(verdict, Deny)
    for word in words:
        assert word in verdict.message


def test_pods_without_any_size_take_places_on_nodes() -> None:
    spec = {"parallelism": 50_000, "template": {"spec": {"nodeSelector": {"muster.dev/pool": "l4"}}}}
    verdict = review("job", {"metadata": {"name": "j"}, "spec": spec})
    assert isinstance(verdict, Deny)
    assert "needs 455 nodes" in verdict.message


def test_a_job_that_may_start_with_fewer_pods_is_judged_by_those() -> None:
    """Kueue's partial admission."""
    spec = {"parallelism": 40, "template": template(1)}
    for least, is_allowed in (("2", True), ("39", False), ("all", False)):
        metadata = {"name": "j", "annotations": {"kueue.x-k8s.io/job-min-parallelism": least}}
        assert isinstance(review("job", {"metadata": metadata, "spec": spec}), Allow) is is_allowed


def test_nothing_of_a_job_is_kept_when_it_is_judged() -> None:
    """Whoever may create jobs, dry runs too, could fill the memory of the process with large ones."""
    tracemalloc.start()
    kept = 0
    for number in range(5):
        obj = ray_job(f"j{number}")
        pod = obj["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
        pod["tolerations"] = [{"key": f"{number}-{each}"} for each in range(5000)]
        assert review("rayjob", obj) == Allow()
        del obj, pod
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0] if not number else kept
    grown = tracemalloc.get_traced_memory()[0] - kept
    tracemalloc.stop()
    assert grown < 200_000


def test_groups_whose_pods_may_share_nodes_are_not_refused_for_one_each() -> None:
    """Four nodes of 8 GPUs: three are full, the last has room for both other groups."""
    full, half = ("w", 3, 8, "h100"), ("a", 1, 4, "h100")
    assert review("rayjob", ray_job(rayClusterSpec=cluster(full, half, ("b", 4, 1, "h100")))) == Allow()
    verdict = review("rayjob", ray_job(rayClusterSpec=cluster(full, half, ("b", 5, 1, "h100"))))
    assert isinstance(verdict, Deny)
    assert "the gang needs 5 nodes" in verdict.message


def test_what_exists_may_always_be_changed_and_deleted() -> None:
    broken = ray_job(rayClusterSpec=cluster(("w", 1, 9, "")))
    changed = broken | {"spec": broken["spec"] | {"entrypoint": "python other.py"}}
    assert review("rayjob", changed, operation="UPDATE", old=broken) == Allow()
    assert review("rayjob", broken, operation="DELETE") == Allow()


@pytest.mark.parametrize("kind", ["rayjob", "raycluster", "rayservice", "job", "cronjob"])
def test_a_change_brings_nothing_that_could_never_run(kind: str) -> None:
    def body(gpus: int) -> dict[str, Any]:
        job: dict[str, Any] = {"template": template(gpus)}
        spec = {
            "rayjob": ray_job(rayClusterSpec=cluster(("w", 1, gpus, "")))["spec"],
            "raycluster": cluster(("w", 1, gpus, "")),
            "rayservice": {
                "rayClusterConfig": cluster(("w", 1, gpus, "")),
                "upgradeStrategy": {"type": "None"},
            },
            "job": job,
            "cronjob": {"jobTemplate": {"spec": job}},
        }
        return {"metadata": {"name": "work"}, "spec": spec[kind]}

    assert review(kind, body(2), operation="UPDATE", old=body(1)) == Allow()
    verdict = review(kind, body(9), operation="UPDATE", old=body(1))
    assert isinstance(verdict, Deny)
    assert "9 GPUs" in verdict.message
    assert review(kind, body(9), operation="UPDATE", old=body(9)) == Allow()
    # Less is let through, although it is still too much; more is not.
    assert review(kind, body(9), operation="UPDATE", old=body(12)) == Allow()
    assert isinstance(review(kind, body(12), operation="UPDATE", old=body(9)), Deny)


def test_an_autoscaler_may_ask_for_more_than_there_is() -> None:
    metadata = {"name": "elastic", "annotations": {"kueue.x-k8s.io/elastic-job": "true"}}
    before, after = ({"metadata": metadata, "spec": cluster(("w", n, 1, "l4"))} for n in (1, 99))
    assert review("raycluster", after, operation="UPDATE", old=before) == Allow()


def test_the_cluster_that_kuberay_makes_for_a_reviewed_job_is_not_reviewed_again() -> None:
    owner = {"kind": "RayJob", "controller": True}
    owned = {"metadata": {"name": "x" * 60, "ownerReferences": [owner]}, "spec": cluster()}
    assert review("raycluster", owned) == Allow()


@pytest.mark.parametrize(
    ("kind", "spec"), [("raycluster", cluster(("w", 1, 9, ""))), ("job", {"template": template(9)})]
)
def test_what_belongs_to_somebody_and_is_queued_by_itself_is_reviewed(
    kind: str, spec: dict[str, Any]
) -> None:
    """An owner that only has it deleted is no controller: Kueue queues it, and it would wait for ever."""
    metadata = {"name": "j", "ownerReferences": [{"kind": "ConfigMap", "name": "run"}]}
    assert isinstance(review(kind, {"metadata": metadata, "spec": spec}), Deny)


def test_without_a_policy_only_the_rules_that_need_none_are_applied() -> None:
    reviews = Reviews(lambda: None)
    review: Any = reviews.review
    raw = msgspec.Raw(json.dumps(ray_job(rayClusterSpec=cluster(("w", 99, 99, "")))).encode())
    assert review(question(Request(uid="u", operation="CREATE", object=raw), RayJob)) == Allow()
