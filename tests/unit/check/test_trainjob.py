"""A TrainJob is judged by what it says of its nodes. The rest is its runtime's, which the platform team
writes.
"""

from typing import Any

import pytest

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


def test_more_nodes_than_the_queue_holds_are_refused() -> None:
    """It has 32 of these GPUs."""
    assert judged(train(nodes=4), work=SERVED).answer.is_admitted
    assert "node" in refusals(judged(train(nodes=5), work=SERVED))


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


@pytest.mark.parametrize(
    "body",
    [train(amounts={"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": 0}), train(runtimePatches=patch())],
    ids=["nodes that say they have no device", "the entry that Kueue adds"],
)
def test_what_passes_no_queue_is_admitted(body: Json) -> None:
    found = judged(body, work=SERVED)
    assert found.answer.is_admitted, refusals(found)
