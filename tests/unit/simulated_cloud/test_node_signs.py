"""A node of the local cluster that is broken on purpose shows what the controller reads."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.controller.gangs.broken_nodes import FailedPod, black_hole, node_that_rejected, sign
from muster.controller.gangs.objects import Node
from muster.controller.runtime.clock import utc_now
from muster.errors import MusterError
from muster.local.simulated_cloud.script import NodeSign, break_node
from muster.model.gangpolicy import BrokenNodes
from tests.unit.demo.http_cluster import kubeconfig_at
from tests.unit.gangs.paper import flavor_policy
from tests.unit.preview.http_world import Asked, Reply, serving

NODE: dict[str, Any] = {"metadata": {"name": "n", "resourceVersion": "1"}, "spec": {}}


def asked_for(kind: NodeSign, folder: Path, *, status: int = 200) -> list[Asked]:
    with serving(lambda _: Reply(status, NODE)) as server:
        break_node(kubeconfig_at(server.url, folder), "n", kind, xid=79)
    return [each for each in server.asked if each.method in ("PATCH", "POST")]


def test_an_xid_is_a_condition_that_a_broken_node_is_known_by(tmp_path: Path) -> None:
    (patch,) = asked_for(NodeSign.XID, tmp_path)
    assert patch.path == "/api/v1/nodes/n/status"
    found = sign(msgspec.convert(patch.body, Node, strict=False), BrokenNodes(), flavor_policy("l4", 1))
    assert found is not None
    assert found.text == "condition SysLogsXIDError=True"


def test_a_taint_is_one_that_a_broken_node_is_known_by(tmp_path: Path) -> None:
    (patch,) = asked_for(NodeSign.TAINT, tmp_path)
    assert sign(msgspec.convert(patch.body, Node, strict=False), BrokenNodes(), flavor_policy("l4", 1))


def test_a_black_hole_is_known_by_the_pods_that_it_rejects(tmp_path: Path) -> None:
    made = [each for each in asked_for(NodeSign.BLACK_HOLE, tmp_path) if "/pods" in each.path]
    pods = []
    for create, status in zip(made[::2], made[1::2], strict=True):
        assert isinstance(create.body, dict)
        assert isinstance(status.body, dict)
        place = {"namespace": create.path.split("/")[4]}
        whole = {**create.body, **status.body, "metadata": {**create.body["metadata"], **place}}
        pods.append(msgspec.convert(whole, FailedPod, strict=False))
    assert {name for pod in pods for name in node_that_rejected(pod)} == {"n"}
    assert black_hole(pods, BrokenNodes().rejections, now=utc_now()) is not None


def test_a_node_that_does_not_exist_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(MusterError, match="404"):
        asked_for(NodeSign.XID, tmp_path, status=404)
