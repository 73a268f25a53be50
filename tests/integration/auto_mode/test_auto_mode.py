"""What a stack with EKS Auto Mode writes, judged by a real API server: NodePools by Karpenter's definition,
node classes by one that follows AWS's guide.
"""

import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster import config
from muster.artifacts.catalogue import catalogue
from muster.model.clusters import EksCluster
from muster.render import karpenter
from tests.integration.conftest import ApiServer
from tests.integration.tenancy.works import changed

Object = dict[str, Any]

_STACK: Final = Path(__file__).parents[2] / "clouds" / "stacks" / "eks-auto-mode.yaml"
_CLASSES: Final = Path(__file__).parent / "nodeclasses.yaml"
_POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
_AT: Final = {
    "NodePool": _POOLS,
    "NodeClass": "/apis/eks.amazonaws.com/v1/nodeclasses",
    "ConfigMap": "/api/v1/namespaces/kube-system/configmaps",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
}


def _written() -> dict[tuple[str, str], Object]:
    stack = config.load(_STACK)
    assert isinstance(stack.cluster, EksCluster)
    assert stack.cluster.is_auto
    subnets = {zone: f"subnet-0{number}" for number, zone in enumerate(stack.cluster.zones)}
    found = karpenter.Found(role="auto-nodes", subnets=subnets, shared="sg-0a", placement={})
    objects = karpenter.objects(stack.pools, stack.cluster, found)
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


WRITTEN: Final = _written()


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> Iterator[ApiServer]:
    """The server of all tests with the kinds that Auto Mode brings, until these tests end."""
    kinds = [yaml.safe_load(path.read_text()) for path in (catalogue().files["nodepools"], _CLASSES)]
    with api_server.serving(kinds):
        yield api_server


@pytest.mark.parametrize(("kind", "name"), WRITTEN)
def test_every_object_of_auto_mode_is_taken(server: ApiServer, kind: str, name: str) -> None:
    assert server.refusal(_AT[kind], WRITTEN[kind, name]) == ""


def test_the_stack_has_every_kind_of_object() -> None:
    assert {kind for kind, _ in WRITTEN} == set(_AT)
    assert any(
        "capacityReservationSelectorTerms" in each["spec"] for each in WRITTEN.values() if "spec" in each
    )


@pytest.mark.parametrize(
    ("kind", "path", "value", "words"),
    [
        # Of EC2NodeClass, which has the same name in many guides; Auto Mode has none of them.
        (
            "NodeClass",
            ("amiSelectorTerms",),
            [{"alias": "al2023@latest"}],
            'unknown field "spec.amiSelectorTerms"',
        ),
        ("NodeClass", ("instanceStorePolicy",), "RAID0", 'unknown field "spec.instanceStorePolicy"'),
        ("NodeClass", ("networkPolicy",), "Allow", 'supported values: "DefaultAllow", "DefaultDeny"'),
        ("NodeClass", ("role",), None, "one of role and instanceProfile is required"),
        ("NodeClass", ("subnetSelectorTerms",), [], "should have at least 1 items"),
        ("NodeClass", ("ephemeralStorage", "size"), "100", "spec.ephemeralStorage.size"),
        ("NodePool", ("template", "spec", "nodeClassRef", "group"), "", "group may not be empty"),
        ("NodePool", ("disruption", "consolidateAfter"), "soon", "spec.disruption.consolidateAfter"),
        ("NodePool", ("limit",), {"cpu": "1"}, 'unknown field "spec.limit"'),
    ],
)
def test_a_broken_field_is_refused(
    server: ApiServer, kind: str, path: tuple[str, ...], value: object, words: str
) -> None:
    """So that what is taken above was judged."""
    broken = changed(WRITTEN[kind, "system"], "spec", *path, value=value)
    assert words in server.refusal(_AT[kind], broken)


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
