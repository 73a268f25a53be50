"""`muster why` on the local cluster: a job that waits for nodes names what its cloud has in stock."""

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.kubernetes.client import Client
from muster.kubernetes.kubeconfig import Access
from muster.live.why.format import format_status
from muster.live.why.job_status import fetch_status
from muster.paths import LOCAL_POOLS
from tests.unit.preview.http_world import Asked, Reply, serving
from tests.unit.preview.snapshot_world import kai_lists, workload

WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team-a/workloads"
CONFIGS = "/api/v1/namespaces/muster-plane/configmaps"
OFFERED = {"data": {"pools.yaml": LOCAL_POOLS.read_text(encoding="utf-8")}}
CHANGED = {"data": {"capacity": '{"l4": 3}'}}
LINE = "  the simulated cloud has {} of l4 in stock; `muster local capacity l4 NODES` changes it\n"


def why(objects: dict[str, Any], job: str = "train") -> str:
    def serve(asked: Asked) -> Reply:
        body = objects.get(asked.path.partition("?")[0])
        return Reply(404, body={}) if body is None else Reply(body=body)

    with serving(serve) as server:
        status = fetch_status(Client(Access(server=server.url)), "team-a", job)
    assert status is not None
    return format_status(status, now=datetime.now(UTC))


@pytest.mark.parametrize(
    ("script", "stock"),
    [(CHANGED, "3 nodes"), ({"data": {}}, "1 node"), ({"data": {"capacity": "{"}}, "1 node")],
)
def test_a_job_that_has_quota_and_no_nodes_names_the_stock_of_its_pool(
    script: dict[str, Any], stock: str
) -> None:
    objects = {
        WORKLOADS: {"items": [workload(state="reserved")]},
        f"{CONFIGS}/pools": OFFERED,
        f"{CONFIGS}/faults": script,
    }
    text = why(objects)
    assert LINE.format(stock) in text
    assert "h100" not in text


def test_a_job_of_kai_names_the_pool_that_its_gate_does() -> None:
    lists = kai_lists()
    gated = next(each for each in lists["/api/v1/pods"] if each["spec"]["schedulingGates"])
    gated["metadata"]["annotations"]["muster.dev/gang-status"] = "0 of 1 l4 nodes for workers"
    place = "/namespaces/team-a"
    objects: dict[str, Any] = {
        f"{path.rpartition('/')[0]}{place}/{path.rpartition('/')[2]}": {"items": listed}
        for path, listed in lists.items()
    }
    objects |= {f"{CONFIGS}/pools": OFFERED, f"{CONFIGS}/faults": CHANGED}
    assert LINE.format("3 nodes") in why(objects, "pg-train")


@pytest.mark.parametrize(("state", "config"), [("pending", OFFERED), ("reserved", None)])
def test_a_job_that_waits_for_quota_or_in_another_cluster_names_none(state: str, config: Any) -> None:
    objects = {WORKLOADS: {"items": [workload(state=state)]}, f"{CONFIGS}/pools": config}
    assert "in stock" not in why(objects)
