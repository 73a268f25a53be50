"""A TrainJob is judged by what it says of its nodes. The rest is its runtime's, which the platform team
writes.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.check.stacks import fitting, judged, refusals

Json = dict[str, Any]
SERVED = ["ray", "job", "trainjob"]
_KUEUE = "kueue.x-k8s.io/manager"
AMOUNTS: Json = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": 8}


def train(
    *, nodes: int = 2, amounts: Json | None = AMOUNTS, trainer: Json | None = None, **spec: Any
) -> Json:
    per_node = {} if amounts is None else {"resourcesPerNode": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "torch"},
        "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {"numNodes": nodes, **per_node, **(trainer or {})},
            **spec,
        },
    }


def patch(manager: str = _KUEUE, **template: Any) -> list[Json]:
    return [{"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {}, **template}}}]


def test_its_nodes_are_counted_and_nothing_is_written_into_them() -> None:
    found = judged(train(), work=SERVED)
    assert found.answer.is_admitted, refusals(found)
    assert [(each.name, each.pods) for each in found.demands] == [("node", 2)]
    assert fitting(found, "node") == {"h100"}
    assert not [path for path, _ in found.answer.filled if path.startswith("spec.trainer")]


def test_what_its_runtime_asks_for_is_not_known() -> None:
    found = judged(train(amounts=None), work=SERVED)
    assert found.answer.is_admitted, refusals(found)
    assert found.demands == ()


def test_the_example_of_the_documentation_is_admitted() -> None:
    text = (Path(__file__).parents[3] / "docs/submission.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(apiVersion: trainer.kubeflow.*?)```", text, re.S)
    found = judged(yaml.safe_load(example), work=SERVED)
    assert found.answer.is_admitted, refusals(found)


def test_more_nodes_than_the_queue_holds_are_refused() -> None:
    """It has 32 of these GPUs."""
    assert judged(train(nodes=4), work=SERVED).answer.is_admitted
    assert "node" in refusals(judged(train(nodes=5), work=SERVED))


def test_more_pods_than_the_namespace_holds_are_refused() -> None:
    assert "lower numNodes in spec" in refusals(judged(train(nodes=100_000, amounts=None), work=SERVED))


@pytest.mark.parametrize(
    ("body", "fix"),
    [
        (train(amounts={"nvidia.com/gpu": 8}), "write cpu, memory under requests and limits"),
        (train(amounts={"cpu": "4", "memory": "8Gi"}), "write nvidia.com/gpu under requests and limits"),
        (train(trainer={"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}),
         "remove NVIDIA_VISIBLE_DEVICES"),
        (train(amounts={**AMOUNTS, "cpu": "-1"}), "nothing below zero"),
        (train(runtimeRef={"name": "own", "kind": "TrainingRuntime"}), "set spec.runtimeRef.kind"),
        (train(runtimePatches=patch("example.com/me")), "remove spec.runtimePatches"),
        (train(runtimePatches=patch(metadata={"labels": {"a": "b"}})), "remove spec.runtimePatches"),
        (train(runtimePatches=patch(spec={"replicatedJobs": [{"name": "node"}]})),
         "remove spec.runtimePatches"),
        (train(managedBy="kueue.x-k8s.io/multikueue"), "remove managedBy"),
    ],
)  # fmt: skip
def test_what_would_pass_the_queue_is_refused(body: Json, fix: str) -> None:
    assert fix in refusals(judged(body, work=SERVED))


def test_nodes_without_devices_say_so() -> None:
    found = judged(train(amounts={"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": 0}), work=SERVED)
    assert found.answer.is_admitted, refusals(found)


def test_the_entry_that_kueue_adds_is_no_patch() -> None:
    found = judged(train(runtimePatches=patch()), work=SERVED)
    assert found.answer.is_admitted, refusals(found)


def test_a_field_that_it_does_not_have_is_named_with_the_nearest() -> None:
    body = train()
    body["spec"]["trainers"] = body["spec"].pop("trainer")
    assert "write trainer" in refusals(judged(body, work=SERVED))


def test_a_stack_that_serves_none_names_the_key_that_would() -> None:
    assert "`muster:work: [ray, job, trainjob]`" in refusals(judged(train()))
