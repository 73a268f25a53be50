"""A StatefulSet is one gang, of as many pods as it has replicas."""

from typing import Any

import pytest

from tests.unit.check.stacks import fitting, judged, pod, refusals

Json = dict[str, Any]
SERVED = ["ray", "job", "statefulset"]


def serving(*, gpus: int = 8, replicas: int = 2, template: Json | None = None, **spec: Any) -> Json:
    body: Json = {"replicas": replicas, "serviceName": "serve", "selector": {"matchLabels": {"app": "serve"}}}
    template = {"metadata": {"labels": {"app": "serve"}}, **pod(gpus), **(template or {})}
    body |= {"podManagementPolicy": "Parallel", "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "serve"}, "spec": body}


def test_it_is_counted_and_gets_what_an_author_may_leave_out() -> None:
    found = judged(serving(), work=SERVED)
    assert found.answer.is_admitted, refusals(found)
    assert {each.name: each.pods for each in found.demands} == {"main": 2}
    assert fitting(found, "main") == {"h100"}
    assert "spec.template.spec.tolerations" in dict(found.answer.filled)


def test_one_that_no_queue_holds_is_refused() -> None:
    """The queue has 32 of these GPUs."""
    assert judged(serving(replicas=4), work=SERVED).answer.is_admitted
    assert "main" in refusals(judged(serving(replicas=5), work=SERVED))


def keyed(field: str, key: str, value: str) -> Json:
    metadata = {"labels": {"app": "serve"}}
    metadata[field] = {**metadata.get(field, {}), key: value}
    return serving(template={"metadata": metadata})


@pytest.mark.parametrize(
    ("body", "fix"),
    [
        (serving(podManagementPolicy="OrderedReady"), "set spec.podManagementPolicy: Parallel"),
        (serving(volumeClaimTemplates=[{"metadata": {"name": "data"}}]), "mount a claim of the team"),
        (serving(template=pod(hostNetwork=True)), "In spec.template"),
        (keyed("labels", "kueue.x-k8s.io/pod-group-name", "others"), "remove kueue.x-k8s.io/pod-group-name"),
        (keyed("annotations", "kueue.x-k8s.io/pod-group-total-count", "9"), "pod-group-total-count from"),
        (keyed("annotations", "kueue.x-k8s.io/role-hash", "main"), "remove kueue.x-k8s.io/role-hash"),
        (keyed("annotations", "kueue.x-k8s.io/pod-suspending-parent", "job"), "pod-suspending-parent from"),
    ],
)  # fmt: skip
def test_what_would_pass_the_queue_or_never_start_whole_is_refused(body: Json, fix: str) -> None:
    assert fix in refusals(judged(body, work=SERVED))


def test_a_mount_of_its_claims_is_not_told_to_be_lost() -> None:
    template = pod(1)
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    found = judged(serving(template=template, volumeClaimTemplates=[claim]), work=SERVED)
    assert "volumeClaimTemplates" in refusals(found)
    assert "add to volumes" not in refusals(found)
