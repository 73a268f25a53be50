"""What goes before what, and back."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from muster.provider.manifests import Ref, apply_waves, delete_waves

KINDS = [
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "RoleBinding",
    "ConfigMap",
    "ResourceFlavor",
    "Topology",
    "WorkloadPriorityClass",
    "AdmissionCheck",
    "Cohort",
    "ClusterQueue",
    "LocalQueue",
    "Deployment",
    "Service",
    "RayJob",
    "ValidatingAdmissionPolicy",
    "ValidatingWebhookConfiguration",
]
REFS = st.lists(st.sampled_from(KINDS), min_size=1, unique=True).map(
    lambda kinds: [Ref("v1", kind, "", kind.lower()) for kind in kinds]
)

BEFORE = [
    ("Namespace", "LocalQueue"),
    ("CustomResourceDefinition", "ResourceFlavor"),
    ("ClusterRole", "RoleBinding"),
    ("Topology", "ResourceFlavor"),
    ("ResourceFlavor", "ClusterQueue"),
    ("AdmissionCheck", "ClusterQueue"),
    ("WorkloadPriorityClass", "ClusterQueue"),
    ("Cohort", "ClusterQueue"),
    ("ClusterQueue", "LocalQueue"),
    ("Deployment", "ValidatingWebhookConfiguration"),
    ("ConfigMap", "Deployment"),
]
GONE_BEFORE = [
    ("ValidatingWebhookConfiguration", "Deployment"),
    ("LocalQueue", "ClusterQueue"),
    ("Namespace", "ClusterQueue"),
    ("ClusterQueue", "Cohort"),
    ("ClusterQueue", "ResourceFlavor"),
    ("ClusterQueue", "AdmissionCheck"),
    ("RayJob", "CustomResourceDefinition"),
    ("RoleBinding", "ClusterRole"),
]


def ranks(waves: list[list[Ref]]) -> dict[str, int]:
    return {ref.kind: rank for rank, wave in enumerate(waves) for ref in wave}


@given(REFS)
def test_what_others_need_is_applied_before_them_and_nothing_is_lost(refs: list[Ref]) -> None:
    waves = apply_waves(refs, lambda ref: ref)
    found = ranks(waves)
    assert sorted(itertools.chain(*waves)) == sorted(refs)
    assert all(found[first] < found[then] for first, then in BEFORE if {first, then} <= found.keys())


@given(REFS)
def test_what_holds_others_goes_before_them_and_nothing_is_left(refs: list[Ref]) -> None:
    waves = delete_waves(refs)
    found = ranks(waves)
    assert sorted(itertools.chain(*waves)) == sorted(refs)
    assert all(found[first] < found[then] for first, then in GONE_BEFORE if {first, then} <= found.keys())
