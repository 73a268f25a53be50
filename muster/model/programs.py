"""The programs that Muster can install into a cluster, and which of them a stack leaves out.

Responsible for where each is expected and for the config key that leaves it out.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from muster.model import names
from muster.model.keys import declared

# Versions as comparable numbers.

_TEXT = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-+].*)?")


class Version(NamedTuple):
    """`v1.6.0` is (1, 6, 0); what follows a minus or plus is left out."""

    major: int
    minor: int
    patch: int = 0

    @classmethod
    def of(cls, text: str) -> "Version":
        """ValueError when the text is no version."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no version")
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))

    def __str__(self) -> str:
        return ".".join(map(str, self))


_VERSION: Final = re.compile(r"v?\d+\.\d+(?:\.\d+)?")
# Where the GPU Operator's chart goes, and where its own documentation puts it.
GPU_OPERATOR_NAMESPACE: Final = "gpu-operator"


class Program(StrEnum):
    """Values are the names of minimum_versions.py and of the charts."""

    KUEUE = "kueue"
    KAI = "kai"
    KUBERAY = "kuberay"
    GPU_OPERATOR = "gpu-operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOptions:
    """`install` false: the cluster has the program, and Muster neither installs nor changes it. None, of the
    GPU Operator: it is installed where the stack's nodes are known to need it.
    """

    install: bool | None = declared("Whether Muster installs KubeRay; false where the cluster has it.", True)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOperatorOptions(ProgramOptions):
    install: bool | None = declared(
        "Whether Muster installs the GPU Operator; false where the cluster has it.",
        None,
        default_text="true where a pool needs it; in an existing cluster only with `cluster.cloud`",
        example=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """`title`: its name in messages. `key`: the config section with `install`. `selector`: the labels of its
    Deployment, installed by its chart or by its plain manifests. `namespace`: where Muster installs it.

    `is_bound`: policies and network rules recognise the program by that namespace, so an existing
    installation has to be there as well.
    """

    title: str
    key: str
    selector: str
    namespace: str
    is_bound: bool = True


# Selectors: Kueue 0.19 chart and manifests; KAI 0.17 chart (services/operator.yaml); KubeRay 1.6 chart
# (`kuberay-operator`) and manifests (`kuberay`); GPU Operator 25.3 chart (operator.yaml).
PLACEMENTS: Final[Mapping[Program, Placement]] = MappingProxyType(
    {
        Program.KUEUE: Placement(
            title="Kueue",
            key="muster:kueue",
            selector="app.kubernetes.io/name=kueue,control-plane=controller-manager",
            namespace=names.KUEUE_NAMESPACE,
        ),
        Program.KAI: Placement(
            title="KAI Scheduler",
            key="muster:kai",
            selector="app=kai-operator",
            namespace=names.KAI_NAMESPACE,
        ),
        Program.KUBERAY: Placement(
            title="KubeRay",
            key="muster:kuberay",
            selector="app.kubernetes.io/name in (kuberay-operator,kuberay)",
            namespace=names.RAY_NAMESPACE,
        ),
        Program.GPU_OPERATOR: Placement(
            title="GPU Operator",
            key="muster:gpuOperator",
            selector="app.kubernetes.io/component=gpu-operator",
            namespace=GPU_OPERATOR_NAMESPACE,
            is_bound=False,
        ),
    }
)


def running_version(deployment: Mapping[str, Any]) -> Version | None:
    """The version of the program that a Deployment runs, from the chart's label or from the tag of an image;
    None where neither holds one.
    """
    label = (deployment["metadata"].get("labels") or {}).get("app.kubernetes.io/version", "")
    containers = deployment.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
    tags = [str(each.get("image", "")).partition("@")[0].rpartition(":")[2] for each in containers]
    return next((Version.of(text) for text in (label, *tags) if _VERSION.fullmatch(text)), None)
