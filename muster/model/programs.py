"""The programs that Muster can install into a cluster, and which of them a stack leaves out.

Responsible for where each is expected and for the config key that leaves it out.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """Values are the names of versions.py and of the charts."""

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


# Charts, images and the sources that a stack takes them from.
#
# Responsible for the sources that a config may name, and for the reference of a chart or image in each. Where
# from is `charts` and `images` of a stack; which is `versions`, for a chart and its images together.


OCI: Final = "oci://"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class ChartOrigin(StrEnum):
    """project: each project's own repository. mirror: one OCI registry that has them all. folder: a path in
    the project, for clusters without access to a registry.
    """

    PROJECT = "project"
    MIRROR = "mirror"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSource:
    """`location` is the mirror (`oci://...`) or the folder. `digests`: chart -> sha256 of its archive, over
    those of the table.
    """

    origin: ChartOrigin = ChartOrigin.PROJECT
    location: str = ""
    digests: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSource:
    """`gang_admission` is our own image, with digest. `mirror` is a prefix that takes the place of the
    registry in every image's name; `pinned` are references that a stack gives itself: name -> reference.
    """

    gang_admission: str | None = None
    mirror: str | None = None
    pinned: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def reference(self, name: str, upstream: str) -> str:
        """The reference of a third-party image whose project calls it `upstream`."""
        if name in self.pinned:
            return self.pinned[name]
        return mirrored(upstream, self.mirror) if self.mirror else upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart as Helm takes it: `reference` is a name in `repository`, an `oci://` address, or a path.
    `version` is None where the path is the version. `digest` is the sha256 of its archive, where one is
    known.
    """

    name: str
    reference: str
    version: str | None = None
    repository: str | None = None
    digest: str = ""

    @property
    def home(self) -> str | None:
        """The registry's folder or the repository that it is fetched from; None for one that lies here."""
        if self.reference.startswith(OCI):
            return self.reference.rpartition("/")[0]
        return self.repository

    @property
    def chart(self) -> str:
        """What its home calls it."""
        return self.reference.rpartition("/")[2]


def mirrored(reference: str, mirror: str) -> str:
    """The same image under the mirror: `quay.io/a/b:c` at `m.example/x` is `m.example/x/a/b:c`."""
    registry, _, path = reference.partition("/")
    named = "." in registry or ":" in registry or registry == "localhost"
    return f"{mirror.rstrip('/')}/{path if named else reference}"


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def has_digest(reference: str) -> bool:
    """Whether an image's reference names exactly one image: `name@sha256:...`."""
    return is_digest(reference.partition("@")[2])


# Where dcgm-exporter runs, which says what the GPUs of a node do.
#
# The GPU Operator brings one. GKE brings one to clusters that are new since 1.32.1-gke.1357000, or that ask
# for it, and the operator's may not start beside it. No team may have their namespaces. Sources, read
# 2026-11-29: https://github.com/NVIDIA/gpu-operator (assets/state-dcgm-exporter),
# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/dcgm-metrics, and for its namespace, label and
# port https://github.com/last9/l9-otel-operator (README.md).


@dataclass(frozen=True, slots=True)
class Exporters:
    """Pods of a DaemonSet. `label`: as a selector."""

    namespace: str
    label: str


EXPORTERS: Final = (
    Exporters(GPU_OPERATOR_NAMESPACE, "app=nvidia-dcgm-exporter"),
    Exporters("gke-managed-system", "app.kubernetes.io/name=gke-managed-dcgm-exporter"),
)
"""Of two on a node the first that answers counts."""
EXPORTER_PORT: Final = 9400
