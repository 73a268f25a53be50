"""The doctor reads NodePools from the real API, and what it proposes is accepted there."""

import json

from muster.cloud.doctor.findings import State
from muster.cloud.doctor.machines import check_node_pools
from muster.kubernetes.client import connect
from muster.local.karpenter import NODE_POOLS, node_pool
from tests.karpenter.world import H100, World

_MERGE = "application/merge-patch+json"


def test_a_node_pool_that_never_consolidates_is_named_until_the_proposed_patch_is_made(world: World) -> None:
    path, ours = f"{NODE_POOLS}/h100", world.managed.ours
    api = connect(world.plane.kubeconfig())
    world.plane.apply(node_pool("h100", [H100], consolidate_after="Never"), path)
    try:
        (finding,) = check_node_pools(ours, api)
        assert finding.state is State.FAILED
        assert "NodePool h100" in finding.message

        patch = json.loads(finding.fix.rpartition(" -p ")[2].strip("'"))
        world.plane.call("PATCH", path, patch, content_type=_MERGE)

        assert [each.state for each in check_node_pools(ours, api)] == [State.OK]
    finally:
        world.limit("h100", None)
