"""What happens when a component goes from one version to another: one table for every reader.

`muster diff`, `muster doctor`, the program (before it installs over what a cluster has) and the page
docs/reference/versions.md read it. Which versions there are to choose from is minimum_versions.py.
"""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final

from muster.model.minimum_versions import MINIMUM_VERSIONS, out_of_range
from muster.model.programs import Version


class Verdict(StrEnum):
    """ordered: it works if the steps of the reason are taken first."""

    SAFE = "safe"
    ORDERED = "needs an order"
    REFUSED = "refused"


class Step(StrEnum):
    """How far the new version is from the old one."""

    PATCH = "a newer patch"
    NEXT = "the next minor version"
    LEAP = "more than one minor version"
    PATCH_BACK = "an older patch"
    BACK = "an older minor version"


_READ: Final = date(2026, 11, 23)


@dataclass(frozen=True, slots=True)
class Transition:
    """`steps` of `component`, where the old version is below `below` (None: any). `reason` has the order, or
    why it is refused. `source` is a URL, or the test that takes the step; `is_tested` says which.
    `read`: the day on which a URL was read.
    """

    component: str
    steps: frozenset[Step]
    verdict: Verdict
    reason: str
    source: str
    below: Version | None = None
    is_tested: bool = False
    read: date = _READ

    def applies(self, before: Version, step: Step) -> bool:
        return step in self.steps and (self.below is None or before < self.below)


_FORWARD: Final = frozenset({Step.PATCH, Step.NEXT, Step.LEAP})
_MINORS: Final = frozenset({Step.NEXT, Step.LEAP})
_PRUNING: Final = (
    "https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"
    "#field-pruning"
)
_EKS: Final = "https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html"
_KUEUE_20: Final = "https://github.com/kubernetes-sigs/kueue/blob/v0.20.0/CHANGELOG/CHANGELOG-0.20.md"
_UPGRADE_TEST: Final = "tests/integration/kueue_api/test_upgraded_and_uninstalled.py"
_KUBERAY: Final = "https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/upgrade-guide.html"
_GPU_OPERATOR: Final = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/upgrade.html"
_HELM: Final = "https://helm.sh/docs/chart_best_practices/custom_resource_definitions/"
_UNTESTED: Final = "was not tested; do it first on a cluster without work that counts"


TRANSITIONS: Final = (
    Transition(
        "kueue",
        _FORWARD,
        Verdict.REFUSED,
        (
            "objects may be stored as v1beta1: upgrade that Kueue to 0.19 with what installed it, migrate "
            "the stored objects, and then let Muster take it over; see the page "
            '"Upgrades and removal" of the documentation'
        ),
        _UPGRADE_TEST,
        below=MINIMUM_VERSIONS["kueue"].version,
        is_tested=True,
    ),
    Transition(
        "kueue",
        frozenset({Step.PATCH}),
        Verdict.SAFE,
        "gangs wait and run through it",
        _UPGRADE_TEST,
        is_tested=True,
    ),
    Transition(
        "kueue",
        _MINORS,
        Verdict.ORDERED,
        (
            "first the stored objects, by Kueue's own hack/migrate-to-v1beta2.sh, because 0.20 does not "
            "serve v1beta1; then to 0.20.6 or newer, before which the API server cannot fill its caches of "
            f"upgraded objects; the step {_UNTESTED}"
        ),
        _KUEUE_20,
        read=date(2026, 11, 27),
    ),
    Transition(
        "kuberay",
        frozenset({Step.PATCH}),
        Verdict.SAFE,
        "the CRDs of 1.6.0, 1.6.1 and 1.6.2 are the same",
        "https://github.com/ray-project/kuberay/tree/v1.6.2/ray-operator/config/crd/bases",
    ),
    Transition(
        "kuberay",
        _MINORS,
        Verdict.ORDERED,
        (
            "first the CRDs, which Helm installs once and never changes: kubectl apply --server-side "
            "--force-conflicts -k 'github.com/ray-project/kuberay/ray-operator/config/crd?ref=vNEW', then "
            "`pulumi up`"
        ),
        _KUBERAY,
    ),
    Transition(
        "kai",
        _FORWARD,
        Verdict.ORDERED,
        f"its chart renews its CRDs by a hook, but the step {_UNTESTED}",
        "https://github.com/kai-scheduler/KAI-Scheduler/releases/tag/v0.17.0",
    ),
    Transition(
        "gpu-operator",
        _FORWARD,
        Verdict.ORDERED,
        (
            "its chart renews its CRDs by a hook (upgradeCRD), and new versions restart what runs on GPU "
            "nodes: let gangs end, or hold their queues, before `pulumi up`"
        ),
        _GPU_OPERATOR,
    ),
    Transition(
        "kubernetes",
        frozenset({Step.PATCH}),
        Verdict.SAFE,
        "the cloud replaces the control plane's machines one by one",
        _EKS,
    ),
    Transition(
        "kubernetes",
        frozenset({Step.NEXT}),
        Verdict.ORDERED,
        (
            "the control plane first, then the nodes, which are replaced: hold the queues and let gangs end "
            "before `pulumi up`"
        ),
        "https://kubernetes.io/releases/version-skew-policy/",
    ),
    Transition(
        "kubernetes",
        frozenset({Step.LEAP}),
        Verdict.ORDERED,
        (
            "a control plane is raised one minor version at a time, and the cloud refuses more: name the "
            "next one, run `pulumi up`, and so on. If the cloud has raised it, name the version that it runs"
        ),
        _EKS,
    ),
    Transition(
        "kubernetes",
        frozenset({Step.BACK, Step.PATCH_BACK}),
        Verdict.REFUSED,
        "a control plane is not lowered: EKS answers with an error, GKE leaves it as it is",
        _EKS,
    ),
    *(
        row
        for component in ("kueue", "kuberay", "kai", "gpu-operator")
        for row in (
            Transition(
                component,
                frozenset({Step.PATCH_BACK}),
                Verdict.ORDERED,
                f"only to undo a raise, before anything uses what the newer patch brought; it {_UNTESTED}",
                _HELM,
            ),
            Transition(
                component,
                frozenset({Step.BACK}),
                Verdict.REFUSED,
                "older CRDs drop fields that newer objects have: install the older one in a new cluster",
                _PRUNING,
            ),
        )
    ),
)
"""The first row that applies counts."""


@dataclass(frozen=True, slots=True)
class Judgement:
    component: str
    before: str
    after: str
    verdict: Verdict
    reason: str
    source: str

    def __str__(self) -> str:
        return f"{self.component} {self.before} to {self.after}: {self.verdict}: {self.reason}."


def judge(component: str, before: str, after: str) -> Judgement | None:
    """The verdict on a change; None where nothing changes or a text is no version."""
    try:
        old, new = Version.of(before), Version.of(after)
    except ValueError:
        return None
    # `1.35` and `1.35.4-gke.1` are the same minor version, and a cloud chooses the patch.
    if old == new or (component == "kubernetes" and old[:2] == new[:2] and 0 in (old.patch, new.patch)):
        return None
    if problem := out_of_range(component, after):
        return Judgement(
            component, before, after, Verdict.REFUSED, problem.message.rstrip("."), problem.source
        )
    step = step_of(old, new)
    row = next(
        (each for each in TRANSITIONS if each.component == component and each.applies(old, step)), None
    )
    if row is None:
        return Judgement(component, before, after, Verdict.ORDERED, f"the step {_UNTESTED}", "")
    return Judgement(component, before, after, row.verdict, row.reason, row.source)


def step_of(old: Version, new: Version) -> Step:
    """A new major version counts as more than one minor version."""
    if old[:2] == new[:2]:
        return Step.PATCH if new > old else Step.PATCH_BACK
    if new < old:
        return Step.BACK
    is_next = old.major == new.major and new.minor == old.minor + 1
    return Step.NEXT if is_next else Step.LEAP
