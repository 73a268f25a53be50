"""AMD's GPUs on nodes of their owner, and Neuron's devices on EKS, wherever a pool is used."""

from pathlib import Path
from typing import Final

import pytest

from muster.cli import main
from muster.config.document import parse_text
from muster.config.stack import examine
from muster.model.clusters import EksCluster
from muster.model.gpu_operator import serves
from muster.model.node_labels import node_labels
from muster.preview.figures import format_unit
from muster.render import gang
from muster.render.karpenter import node_pool
from muster.render.tenancy.policies.pods import requests_gpus
from tests.unit.model.model_stacks import nominal_quotas, parsed, specs

_AMD: Final = """\
config:
  muster:cluster: {provider: existing, name: own, context: own, autoscaler: none}
  muster:scheduler: %s
  muster:tenancy: {mode: enforce}
  muster:pools:
    cpu: {node: {cpu: 60, memory: 240Gi}, maxNodes: 2}
    mi: {node: {cpu: 96, memory: 1Ti, gpus: 8, accelerator: mi300x}, maxNodes: 4%s}
  muster:departments: {research: {teams: {team-a: {quota: {mi: 32}}}}}
"""
_NEURON: Final = """\
config:
  muster:cluster:
    {provider: eks, name: ml, region: us-east-1, zones: [us-east-1a, us-east-1b], publicCidrs: [8.8.8.0/24]}
  muster:pools:
    cpu: {machine: m7g.2xlarge, maxNodes: 10}
    trn: {machine: trn1.32xlarge, maxNodes: 2%s}
  muster:departments: {research: {teams: {team-a: {quota: {trn: 32}}}}}
"""
_JOB: Final = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: registry.example.com/rocm:1
          resources: {requests: {cpu: 4, memory: 16Gi}, limits: {memory: 16Gi, %s: 8}}
"""


def _found(text: str) -> list[tuple[str, str]]:
    _, found = examine(parse_text(text, source="test.yaml"))
    return [(each.level, str(each)) for each in found]


def test_amds_gpus_have_a_quota_a_flavor_and_a_place_in_gangs() -> None:
    stack = parsed(_AMD % ("kueue", ""))
    assert specs(stack, "ResourceFlavor")["mi"]["nodeTaints"] == [
        {"key": "amd.com/gpu", "value": "present", "effect": "NoSchedule"}
    ]
    nominal = nominal_quotas(stack, "team-a")["mi"]
    assert [*nominal] == ["cpu", "memory", "nvidia.com/gpu", "amd.com/gpu"]
    assert (nominal["amd.com/gpu"], nominal["nvidia.com/gpu"]) == ("32", "0")
    policy = gang.policy(stack)["spec"]
    assert policy["managedResources"] == ["nvidia.com/gpu", "amd.com/gpu"]
    (pool,) = [each for each in policy["flavors"] if each["name"] == "mi"]
    assert pool["perNode"]["amd.com/gpu"] == "8"
    assert [format_unit(each) for each in stack.pools] == ["CPU", "AMD GPU"]
    assert not any(serves(each) for each in stack.pools)


@pytest.mark.parametrize(
    ("resource", "code", "says"),
    [
        ("amd.com/gpu", 0, ["16 AMD GPUs", "pool mi: fits, 2 nodes", '"key": "amd.com/gpu"']),
        ("nvidia.com/gpu", 1, ["would never run", "pool mi: no node of it has a GPU"]),
        ("gpus", 1, ["write amd.com/gpu, cpu or memory or ephemeral-storage in place of gpus"]),
    ],
)
def test_check_answers_for_amds_gpus(
    resource: str, code: int, says: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack, job = tmp_path / "Pulumi.amd.yaml", tmp_path / "job.yaml"
    stack.write_text(_AMD % ("kueue", ""))
    job.write_text(_JOB % resource)
    assert main(["check", "--stack", str(stack), "--team", "team-a", str(job)]) == code
    printed = capsys.readouterr().out
    assert [each for each in says if each not in printed] == []


@pytest.mark.parametrize(
    ("scheduler", "more", "says"),
    [
        ("kai", "", "KAI counts NVIDIA's GPUs and no AMD GPUs"),
        ("kueue", ", sharing: time-slicing, shares: 4", "AMD GPUs cannot be shared"),
    ],
)
def test_what_amds_gpus_cannot_do_is_refused_once(scheduler: str, more: str, says: str) -> None:
    errors = [text for level, text in _found(_AMD % (scheduler, more)) if level == "error"]
    assert [text for text in errors if says in text] == errors
    assert len(errors) == 1


@pytest.mark.parametrize("resource", ["nvidia.com/", "amd.com/", "aws.amazon.com/neuron"])
def test_tenancy_knows_every_vendors_resources(resource: str) -> None:
    assert f"name.startsWith('{resource}')" in requests_gpus("object")


def test_neuron_devices_are_requested_and_are_no_gpus_to_the_autoscaler() -> None:
    stack = parsed(_NEURON % "")
    cluster, (cpu, trn) = stack.cluster, stack.pools
    assert isinstance(cluster, EksCluster)
    assert trn.max_gpus == 32
    made = node_pool(trn, cluster)["spec"]
    assert made["limits"] == {"aws.amazon.com/neuron": "32"}
    assert made["template"]["spec"]["taints"][0]["key"] == "aws.amazon.com/neuron"
    # cluster-autoscaler waits for nvidia.com/gpu on a node with this label.
    assert "k8s.amazonaws.com/accelerator" not in node_labels(trn, cluster)
    (processor,) = [
        each["values"]
        for each in node_pool(cpu, cluster)["spec"]["template"]["spec"]["requirements"]
        if each["key"] == "kubernetes.io/arch"
    ]
    assert processor == ["arm64"]


def test_what_neuron_needs_is_said() -> None:
    found = _found(_NEURON % "")
    assert any(level == "warning" and "device plugin" in text for level, text in found)
    assert not any(level == "error" for level, _ in found)
    refused = _found(_NEURON % ", image: bottlerocket")
    assert [text for level, text in refused if level == "error" and "no image with the driver" in text]
