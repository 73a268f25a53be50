"""What a forecaster in the cluster reads from its queues is what the stack says of them."""

from pathlib import Path
from typing import Any

import pytest

from muster.config import load
from muster.model import names
from muster.preview.replay.both import queues_of
from muster.replay.side import FlavorPool, of_cluster

_STACKS = Path(__file__).parents[3] / "stacks"


@pytest.mark.parametrize("stack", ["gke-prod", "eks-prod", "local"])
def test_teams_and_pools_of_a_cluster_are_those_of_its_stack(stack: str) -> None:
    known = load(_STACKS / f"Pulumi.{stack}.yaml")
    rendered = queues_of(known)
    found = of_cluster(rendered.objects, rendered.config)
    assert {space: team.name for space, team in found.teams.items()} == {
        space: team.name for _, team in known.teams() for space in team.namespaces
    }
    trees = (found.tree, rendered.tree)
    counted, expected = ({queue.object_name: queue.groups for queue in tree.teams()} for tree in trees)
    assert counted == expected
    read = {(pool.flavor, pool.name, pool.is_gpu) for pool in found.node_pools}
    assert read >= {(pool.flavor, pool.name, pool.is_gpu) for pool in known.pools}
    assert rendered.node_pools == known.pools


def _queue(namespace: str, name: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": "all"}}


def test_the_namespaces_of_one_label_are_one_team_and_those_without_are_their_own() -> None:
    of_vision = {names.TEAM_LABEL: "vision"}
    objects = [_queue("v-2", "a", **of_vision), _queue("other", "a"), _queue("v-1", "a", **of_vision)]
    teams = of_cluster([*objects, _queue("v-1", "b", **of_vision)], {}).teams
    assert {space: team.name for space, team in teams.items()} == {
        "v-1": "vision",
        "v-2": "vision",
        "other": "other",
    }
    assert teams["v-1"].namespaces == ("v-1", "v-2")


def test_a_flavor_of_another_author_is_a_pool_of_its_name_with_devices_where_a_cohort_has_them() -> None:
    flavors = [{"name": "rented", "resources": [{"name": names.GPU_RESOURCE, "nominalQuota": 8}]}]
    objects = [
        {"kind": "ResourceFlavor", "metadata": {"name": each}, "spec": {}} for each in ("rented", "plain")
    ]
    cohort = {
        "kind": "Cohort",
        "metadata": {"name": "all"},
        "spec": {"resourceGroups": [{"flavors": flavors}]},
    }
    assert of_cluster([*objects, cohort], {}).node_pools == [
        FlavorPool(name="rented", flavor="rented", is_gpu=True),
        FlavorPool(name="plain", flavor="plain", is_gpu=False),
    ]
