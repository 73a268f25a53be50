"""What a stack writes for a cloud's node provisioner, judged by a real API server: NodePools of Auto Mode by
Karpenter's definition, its node classes and GKE's ComputeClasses by ones that follow the clouds' guides.
"""

import urllib.error
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster import config
from muster.artifacts.catalogue import catalogue
from muster.model.clusters import EksCluster, GkeCluster
from muster.render import karpenter
from muster.render.karpenter import compute_classes
from tests.integration.conftest import ApiServer
from tests.integration.tenancy.works import changed

Object = dict[str, Any]

_CLOUDS: Final = Path(__file__).parents[2] / "clouds"
_KINDS: Final = (
    catalogue().files["nodepools"],
    Path(__file__).with_name("nodeclasses.yaml"),
    _CLOUDS / "cluster" / "computeclasses.yaml",
)
_POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
_AT: Final = {
    "NodePool": _POOLS,
    "NodeClass": "/apis/eks.amazonaws.com/v1/nodeclasses",
    "ConfigMap": "/api/v1/namespaces/kube-system/configmaps",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "ComputeClass": "/apis/cloud.google.com/v1/computeclasses",
}


def _auto_mode() -> list[Object]:
    stack = config.load(_CLOUDS / "stacks" / "eks-auto-mode.yaml")
    assert isinstance(stack.cluster, EksCluster)
    assert stack.cluster.is_auto
    subnets = {zone: f"subnet-0{number}" for number, zone in enumerate(stack.cluster.zones)}
    found = karpenter.Found(role="auto-nodes", subnets=subnets, shared="sg-0a", placement={})
    return karpenter.objects(stack.pools, stack.cluster, found)


def _compute_classes() -> list[Object]:
    stack = config.load(_CLOUDS / "stacks" / "gke-compute-classes.yaml")
    assert isinstance(stack.cluster, GkeCluster)
    keyed = replace(stack.cluster, kms_key="projects/p/locations/us-central1/keyRings/r/cryptoKeys/k")
    return compute_classes(stack.pools, keyed, service_account="nodes@p.iam.gserviceaccount.com")


WRITTEN: Final = {
    (each["kind"], each["metadata"]["name"]): each for each in [*_auto_mode(), *_compute_classes()]
}


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> Iterator[ApiServer]:
    """The server of all tests with the kinds that the clouds bring, until these tests end."""
    with api_server.serving([yaml.safe_load(path.read_text()) for path in _KINDS]):
        yield api_server


@pytest.mark.parametrize(("kind", "name"), WRITTEN)
def test_every_object_is_taken(server: ApiServer, kind: str, name: str) -> None:
    assert server.refusal(_AT[kind], WRITTEN[kind, name]) == ""


def test_the_stacks_have_every_kind_of_object_and_every_way_to_buy() -> None:
    assert {kind for kind, _ in WRITTEN} == set(_AT)
    specs = [each["spec"] for each in WRITTEN.values() if "spec" in each]
    assert any("capacityReservationSelectorTerms" in spec for spec in specs)
    rules = [spec["priorities"][0] for spec in specs if "priorities" in spec]
    assert {rule["spot"] for rule in rules} == {True, False}
    assert {rule["reservations"]["affinity"] for rule in rules} == {"None", "Specific"}


@pytest.mark.parametrize(
    ("kind", "path", "value", "words"),
    [
        # Of EC2NodeClass, which has the same name in many guides; Auto Mode has none of them.
        ("NodeClass", "amiSelectorTerms", [{"alias": "a"}], 'unknown field "spec.amiSelectorTerms"'),
        ("NodeClass", "instanceStorePolicy", "RAID0", 'unknown field "spec.instanceStorePolicy"'),
        ("NodeClass", "networkPolicy", "Allow", 'supported values: "DefaultAllow", "DefaultDeny"'),
        ("NodeClass", "role", None, "one of role and instanceProfile is required"),
        ("NodeClass", "subnetSelectorTerms", [], "should have at least 1 items"),
        ("NodeClass", "ephemeralStorage.size", "100", "spec.ephemeralStorage.size"),
        ("NodePool", "template.spec.nodeClassRef.group", "", "group may not be empty"),
        ("NodePool", "disruption.consolidateAfter", "soon", "spec.disruption.consolidateAfter"),
        ("NodePool", "limit", {"cpu": "1"}, 'unknown field "spec.limit"'),
    ],
)
def test_a_broken_field_is_refused(
    server: ApiServer, kind: str, path: str, value: object, words: str
) -> None:
    """So that what is taken above was judged."""
    broken = changed(WRITTEN[kind, "system"], "spec", *path.split("."), value=value)
    assert words in server.refusal(_AT[kind], broken)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"machine": "g2-standard-8"}, 'unknown field "spec.priorities[0].machine"'),
        ({"spot": "yes"}, "spec.priorities[0].spot"),
        ({"gpu": {"type": "nvidia-l4", "count": 0}}, "should be greater than or equal to 1"),
        ({"reservations": {"affinity": "Any"}}, 'supported values: "None", "Specific", "AnyBestEffort"'),
        (
            {"reservations": {"affinity": "Specific", "specific": [{"name": "r"}]}},
            "location config with specific reservations enabled",
        ),
    ],
)
def test_a_broken_rule_of_a_compute_class_is_refused(server: ApiServer, change: Object, words: str) -> None:
    body = WRITTEN["ComputeClass", "l4"]
    rule = body["spec"]["priorities"][0]
    broken = changed(body, "spec", "priorities", value=[{**rule, **change}])
    assert words in server.refusal(_AT["ComputeClass"], broken)


def test_a_class_of_auto_mode_and_one_of_karpenter_are_told_apart(server: ApiServer) -> None:
    """Once made, a NodePool keeps the kind of its class: a cluster that goes over makes other NodePools."""
    body = WRITTEN["NodePool", "system"]
    server.call("POST", _POOLS, body)
    try:
        other = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "system"}
        patch = {"spec": {"template": {"spec": {"nodeClassRef": other}}}}
        with pytest.raises(urllib.error.HTTPError) as refused:
            server.call("PATCH", f"{_POOLS}/system", patch, content_type="application/merge-patch+json")
        assert "immutable" in refused.value.read().decode()
    finally:
        server.call("DELETE", f"{_POOLS}/system")
