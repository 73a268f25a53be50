"""What happens when a component goes from one version to another: one table for every reader.

`muster diff`, `muster doctor`, the program (before it installs over what a cluster has) and the page
docs/reference/versions.md read it. Which versions there are to choose from is minimum_versions.py.
"""

from collections.abc import Iterator
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


@dataclass(frozen=True, slots=True, kw_only=True)
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


def _rows() -> Iterator[Transition]:
    """The first row that applies counts."""
    yield Transition(
        component="kueue",
        steps=_FORWARD,
        below=MINIMUM_VERSIONS["kueue"].version,
        verdict=Verdict.REFUSED,
        reason=(
            "objects may be stored as v1beta1: upgrade that Kueue to 0.19 with what installed it, migrate "
            "the stored objects, and then let Muster take it over (docs/upgrades.md)"
        ),
        source=_UPGRADE_TEST,
        is_tested=True,
    )
    yield Transition(
        component="kueue",
        steps=frozenset({Step.PATCH}),
        verdict=Verdict.SAFE,
        reason="gangs wait and run through it",
        source=_UPGRADE_TEST,
        is_tested=True,
    )
    yield Transition(
        component="kueue",
        steps=_MINORS,
        verdict=Verdict.ORDERED,
        reason=(
            "first the stored objects, by Kueue's own hack/migrate-to-v1beta2.sh, because 0.20 does not "
            "serve v1beta1; then to 0.20.6 or newer, before which the API server cannot fill its caches of "
            f"upgraded objects; the step {_UNTESTED}"
        ),
        source=_KUEUE_20,
        read=date(2026, 11, 27),
    )
    yield Transition(
        component="kuberay",
        steps=frozenset({Step.PATCH}),
        verdict=Verdict.SAFE,
        reason="the CRDs of 1.6.0, 1.6.1 and 1.6.2 are the same",
        source="https://github.com/ray-project/kuberay/tree/v1.6.2/ray-operator/config/crd/bases",
    )
    yield Transition(
        component="kuberay",
        steps=_MINORS,
        verdict=Verdict.ORDERED,
        reason=(
            "first the CRDs, which Helm installs once and never changes: kubectl apply --server-side "
            "--force-conflicts -k 'github.com/ray-project/kuberay/ray-operator/config/crd?ref=vNEW', then "
            "`pulumi up`"
        ),
        source=_KUBERAY,
    )
    yield Transition(
        component="kai",
        steps=_FORWARD,
        verdict=Verdict.ORDERED,
        reason=f"its chart renews its CRDs by a hook, but the step {_UNTESTED}",
        source="https://github.com/kai-scheduler/KAI-Scheduler/releases/tag/v0.17.0",
    )
    yield Transition(
        component="gpu-operator",
        steps=_FORWARD,
        verdict=Verdict.ORDERED,
        reason=(
            "its chart renews its CRDs by a hook (upgradeCRD), and new versions restart what runs on GPU "
            "nodes: let gangs end, or hold their queues, before `pulumi up`"
        ),
        source=_GPU_OPERATOR,
    )
    yield Transition(
        component="kubernetes",
        steps=frozenset({Step.PATCH}),
        verdict=Verdict.SAFE,
        reason="the cloud replaces the control plane's machines one by one",
        source=_EKS,
    )
    yield Transition(
        component="kubernetes",
        steps=frozenset({Step.NEXT}),
        verdict=Verdict.ORDERED,
        reason=(
            "the control plane first, then the nodes, which are replaced: hold the queues and let gangs end "
            "before `pulumi up`"
        ),
        source="https://kubernetes.io/releases/version-skew-policy/",
    )
    yield Transition(
        component="kubernetes",
        steps=frozenset({Step.LEAP}),
        verdict=Verdict.ORDERED,
        reason=(
            "a control plane is raised one minor version at a time, and the cloud refuses more: name the "
            "next one, run `pulumi up`, and so on. If the cloud has raised it, name the version that it runs"
        ),
        source=_EKS,
    )
    yield Transition(
        component="kubernetes",
        steps=frozenset({Step.BACK, Step.PATCH_BACK}),
        verdict=Verdict.REFUSED,
        reason="a control plane is not lowered: EKS answers with an error, GKE leaves it as it is",
        source=_EKS,
    )
    for component in ("kueue", "kuberay", "kai", "gpu-operator"):
        yield Transition(
            component=component,
            steps=frozenset({Step.PATCH_BACK}),
            verdict=Verdict.ORDERED,
            reason=f"only to undo a raise, before anything uses what the newer patch brought; it {_UNTESTED}",
            source=_HELM,
        )
        yield Transition(
            component=component,
            steps=frozenset({Step.BACK}),
            verdict=Verdict.REFUSED,
            reason="older CRDs drop fields that newer objects have: install the older one in a new cluster",
            source=_PRUNING,
        )


TRANSITIONS: Final[tuple[Transition, ...]] = tuple(_rows())


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on one change of one component."""

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
        return _judgement(component, before, after, Verdict.REFUSED, problem.message, problem.source)
    step = step_of(old, new)
    row = next(
        (each for each in TRANSITIONS if each.component == component and each.applies(old, step)), None
    )
    if row is None:
        return _judgement(component, before, after, Verdict.ORDERED, f"the step {_UNTESTED}", "")
    return _judgement(component, before, after, row.verdict, row.reason, row.source)


def _judgement(
    component: str, before: str, after: str, verdict: Verdict, reason: str, source: str
) -> Judgement:
    return Judgement(
        component=component,
        before=before,
        after=after,
        verdict=verdict,
        reason=reason.rstrip("."),
        source=source,
    )


def step_of(old: Version, new: Version) -> Step:
    """A new major version counts as more than one minor version."""
    if old[:2] == new[:2]:
        return Step.PATCH if new > old else Step.PATCH_BACK
    if new < old:
        return Step.BACK
    is_next = old.major == new.major and new.minor == old.minor + 1
    return Step.NEXT if is_next else Step.LEAP
