"""Jobs that the webhooks refuse for a figure, and the stacks that the page of admission is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import yaml

from muster.check.admission import FIGURES, Admission
from muster.config import parse
from muster.model.stack import Stack

KUEUE: Final = "Kueue"
KAI: Final = "KAI"
WARN: Final = "`muster:tenancy.mode: warn`"
PLACEHOLDERS: Final = "`gangs: placeholders`"
FORECASTS: Final = "`muster:recording.forecasts`"
_TPUS: Final = "    tpu: {machine: ct5lp-hightpu-4t, topology: 4x4, maxNodes: 4, zones: [us-central1-a]}\n"
STACK: Final = """\
  muster:cluster:
    provider: gke
    name: research
    project: my-project
    region: us-central1
    authorizedNetworks: {office: 198.51.100.0/24}
  muster:pools:
    cpu: {machine: e2-standard-8, maxNodes: 4}
    l4: {machine: g2-standard-8, capacity: queued, maxNodes: 8}
    h200: {machine: a3-ultragpu-8g, capacity: queued, maxNodes: 2}
    tpu: {machine: ct5lp-hightpu-4t, topology: 4x4, maxNodes: 4, zones: [us-central1-a]}
  muster:priorities: {prod: 1000, dev: 100}
  muster:departments:
    research:
      teams:
        vision: {quota: {l4: 4}, borrow: {l4: 2}}
        speech: {quota: {l4: unlimited, tpu: unlimited}}
"""
_GPU: Final = "nvidia.com/gpu"
_POOL: Final = "muster.dev/pool"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A batch Job that the webhooks refuse. `pod`: fields of its pods besides the container."""

    title: str
    team: str
    pods: int = 1
    requests: Mapping[str, str]
    pod: Mapping[str, Any]

    def body(self) -> Json:
        container = {
            "name": "main",
            "image": "example.com/train:1",
            "resources": {"limits": dict(self.requests)},
        }
        pod = {"restartPolicy": "Never", "containers": [container], **self.pod}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train"},
            "spec": {
                "parallelism": self.pods,
                "completions": self.pods,
                "suspend": True,
                "template": {"spec": pod},
            },
        }


CASES: Final = (
    Case(title="a pod larger than any node", team="vision", requests={_GPU: "2"}, pod={}),
    Case(title="more nodes than the pool can have", team="speech", pods=9, requests={_GPU: "1"}, pod={}),
    Case(title="more than the queue can ever hold", team="vision", pods=7, requests={_GPU: "1"}, pod={}),
    Case(
        title="a resource of which the queue has no quota",
        team="vision",
        requests={_GPU: "1", "ephemeral-storage": "10Gi"},
        pod={},
    ),
    Case(
        title="pods without GPUs that may go to GPU nodes alone",
        team="vision",
        requests={"cpu": "1"},
        pod={"nodeSelector": {_POOL: "l4"}},
    ),
    Case(
        title="a part of a TPU slice",
        team="speech",
        pods=3,
        requests={"google.com/tpu": "4"},
        pod={"nodeSelector": {_POOL: "tpu"}},
    ),
)


def variants() -> dict[str, Stack]:
    """A stack with each scheduler, and those that have further policies or messages."""
    without_tpus = yaml.safe_load(STACK.replace(_TPUS, "").replace(", tpu: unlimited", ""))
    return {
        KUEUE: stack(),
        KAI: stack({**without_tpus, "muster:scheduler": "kai"}),
        WARN: stack({"muster:tenancy": {"mode": "warn"}}),
        PLACEHOLDERS: stack(
            yaml.safe_load(STACK.replace("capacity: queued, maxNodes: 8", "gangs: placeholders, maxNodes: 8"))
        ),
        FORECASTS: stack({"muster:recording": {"enabled": True, "forecasts": True}}),
    }


def stack(changes: Mapping[str, Any] = MappingProxyType({})) -> Stack:
    """The stack of the page, with other sections."""
    return parse({**yaml.safe_load(STACK), **changes}, source=__name__)


def answer(case: Case, of: Stack) -> str:
    """What the webhooks say to a case."""
    found = Admission(of, case.team).review(case.body()).findings
    (message,) = (each.message for each in found if each.by == FIGURES)
    return message
