"""A Deployment is as many gangs of one pod as it has replicas."""

from typing import Any

import pytest

from tests.unit.check.stacks import fitting, judged, pod, refusals

Json = dict[str, Any]
SERVED = ["ray", "job", "deployment"]


def serving(*, gpus: int = 8, replicas: int = 2, template: Json | None = None, **spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": "serve"}}, **pod(gpus), **(template or {})}
    body: Json = {"replicas": replicas, "selector": {"matchLabels": {"app": "serve"}}, "template": template}
    metadata = {"name": "serve"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {**body, **spec}}


def labelled(key: str, value: str) -> Json:
    return serving(template={"metadata": {"labels": {"app": "serve", key: value}}})


def test_pods_beyond_its_queue_wait_and_one_that_no_node_holds_is_refused() -> None:
    """The queue has 32 of these GPUs."""
    found = judged(serving(replicas=9), work=SERVED)
    assert found.answer.is_admitted
    assert fitting(found, "main") == {"h100"}
    assert "main" in refusals(judged(serving(gpus=16), work=SERVED))


@pytest.mark.parametrize(
    ("body", "fix"),
    [
        (labelled("kueue.x-k8s.io/pod-group-name", "others"), "remove kueue.x-k8s.io/pod-group-name"),
        (labelled("kueue.x-k8s.io/prebuilt-workload-name", "x"), "remove kueue.x-k8s.io/prebuilt-workload"),
        (labelled("kueue.x-k8s.io/priority-class", "urgent"), "priority urgent is not available"),
        (serving(template=pod(hostNetwork=True)), "In spec.template"),
    ],
)
def test_what_would_pass_the_queue_is_refused(body: Json, fix: str) -> None:
    assert fix in refusals(judged(body, work=SERVED))
