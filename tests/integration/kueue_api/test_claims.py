"""Jobs that claim devices, and flavors in another order, on the real Kueue."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from muster.model import names
from muster.model.stack import Stack
from tests.envtest import ControlPlane
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.world import KUEUE, condition, holds, pod
from tests.unit.model.kueue_files import rendered
from tests.unit.model.model_stacks import parsed
from tests.waiting import eventually

# Mapped in the Configuration of the server, that of everything.yaml.
CHANNELS: Final = "compute-domain-default-channel.nvidia.com"
DRA: Final = "resource.k8s.io/v1"
PODS: Final = 2
WORKLOADS: Final = f"{KUEUE}/namespaces/rack/workloads"


def described(*, first: str = "rack-old") -> Stack:
    """A team with quota in two pools of the same GPUs."""
    return parsed(f"""
config:
  muster:cluster: {{provider: existing, name: rack, context: rack}}
  muster:gangAdmission: off
  muster:kueue: {{deviceClasses: {{{CHANNELS}: uncounted}}}}
  muster:pools:
    rack-cpu: {{machine: local-cpu, maxNodes: 1}}
    {first}: {{machine: local-l4, maxNodes: 8, preference: 1}}
    {"rack-new" if first == "rack-old" else "rack-old"}: {{machine: local-l4, maxNodes: 8}}
  muster:departments: {{racks: {{teams: {{rack: {{quota: {{rack-old: 8, rack-new: 8}}}}}}}}}}
""")


def submit(server: ControlPlane, name: str, **claim: str) -> None:
    """A Job of two pods with a GPU each, which claim a device where `claim` names one."""
    spec: dict[str, Any] = {"restartPolicy": "Never", **pod("any")}
    del spec["nodeSelector"]
    if claim:
        spec["resourceClaims"] = [{"name": "imex", **claim}]
        spec["containers"][0]["resources"]["claims"] = [{"name": "imex"}]
    job = {"suspend": True, "parallelism": PODS, "completions": PODS, "template": {"spec": spec}}
    meta = {"name": name, "namespace": "rack", "labels": {names.QUEUE_LABEL: "default"}}
    apply(server, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job})


def offer(server: ControlPlane, name: str, device_class: str, **request: str) -> None:
    exactly = {"deviceClassName": device_class, **request}
    spec = {"spec": {"devices": {"requests": [{"name": "one", "exactly": exactly}]}}}
    meta = {"name": name, "namespace": "rack"}
    apply(server, {"apiVersion": DRA, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": spec})


def workload(server: ControlPlane, job: str) -> dict[str, Any]:
    found = server.call("GET", WORKLOADS)["items"]
    return next((each for each in found if each["metadata"]["name"].startswith(f"job-{job}-")), {})


@pytest.fixture
def server(kueue_server: ControlPlane) -> Iterator[ControlPlane]:
    """Without work of its own afterwards: others of this server record all that runs in it."""
    for item in rendered(described()):
        apply(kueue_server, item)
    yield kueue_server
    kueue_server.call("DELETE", "/apis/batch/v1/namespaces/rack/jobs?propagationPolicy=Background")
    kueue_server.call("DELETE", WORKLOADS)
    eventually("no work is left", lambda: not kueue_server.call("GET", WORKLOADS)["items"])


def test_a_gang_with_a_channel_is_admitted_and_the_channel_takes_no_quota(server: ControlPlane) -> None:
    offer(server, "nccl", CHANNELS)
    submit(server, "nccl", resourceClaimTemplateName="nccl")
    eventually("the gang is admitted", lambda: holds(workload(server, "nccl"), "Admitted"))
    (assigned,) = workload(server, "nccl")["status"]["admission"]["podSetAssignments"]
    assert assigned["resourceUsage"][names.UNCOUNTED_DEVICES] == str(PODS)
    assert assigned["resourceUsage"]["nvidia.com/gpu"] == str(PODS)


@pytest.mark.parametrize(
    ("name", "request_of", "words"),
    [
        ("unmapped", {"device_class": "gpu.nvidia.com"}, "DeviceClass gpu.nvidia.com is not mapped"),
        ("all", {"device_class": CHANNELS, "allocationMode": "All"}, "AllocationMode 'All' is not supported"),
    ],
)
def test_what_check_refuses_kueue_never_admits(
    server: ControlPlane, name: str, request_of: dict[str, str], words: str
) -> None:
    offer(server, name, **request_of)
    submit(server, name, resourceClaimTemplateName=name)

    def says() -> bool:
        return words in condition(workload(server, name), "QuotaReserved").get("message", "")

    eventually(f"Kueue says {words!r}", says)


def test_another_order_of_flavors_is_an_update_and_moves_no_admitted_work(server: ControlPlane) -> None:
    submit(server, "early")
    eventually("the first job is admitted", lambda: holds(workload(server, "early"), "Admitted"))
    before = workload(server, "early")["status"]["admission"]
    for item in rendered(described(first="rack-new")):
        apply(server, item)
    submit(server, "late")
    eventually("the second job is admitted", lambda: holds(workload(server, "late"), "Admitted"))
    assert workload(server, "early")["status"]["admission"] == before
    (first,), (second,) = (
        workload(server, job)["status"]["admission"]["podSetAssignments"] for job in ("early", "late")
    )
    assert (first["flavors"]["nvidia.com/gpu"], second["flavors"]["nvidia.com/gpu"]) == (
        "rack-old",
        "rack-new",
    )
