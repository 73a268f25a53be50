"""What is refused before any rule: names, types, enums, and whatever nobody has looked up."""

from pathlib import Path
from typing import Any

import pytest
from pulumi_gcp.container import ClusterArgs

from muster.provider.provider import UNKNOWN
from tests.clouds.legal import LEGAL, edited
from tests.clouds.planned import registered
from tests.clouds.stack_files import OWN, SHIPPED
from tests.clouds.standin import amazon, google, sdk
from tests.clouds.standin.changes import changes
from tests.clouds.standin.deprecated import ALLOWED
from tests.clouds.standin.judge import judge
from tests.clouds.standin.rules import rules_of
from tests.clouds.standin.table import api_fields
from tests.clouds.standin.tables import TABLES, compute, eks, gke, launch_templates
from tests.clouds.standin.values import plain

TEMPLATE = launch_templates.LAUNCH_TEMPLATE.token


@pytest.mark.parametrize(
    ("token", "edits", "path", "said"),
    [
        (gke.POOL_TYPE, {"nodeConfig.flexstart": True}, "nodeConfig.flexstart", "no such input"),
        (gke.POOL_TYPE, {"cluster": None}, "cluster", "requires it"),
        (gke.POOL_TYPE, {"nodeConfig.taints.0.effect": None}, "nodeConfig.taints[0].effect", "requires it"),
        (gke.POOL_TYPE, {"nodeConfig.spot": "yes"}, "nodeConfig.spot", "true or false"),
        (gke.POOL_TYPE, {"nodeConfig.labels": {"a/b": 1}}, 'nodeConfig.labels["a/b"]', "a string"),
        (gke.POOL_TYPE, {"nodeConfig.guestAccelerators": {}}, "nodeConfig.guestAccelerators", "a list"),
        (
            gke.POOL_TYPE,
            {"nodeConfig.taints.0.effect": "NoSchedule"},
            "nodeConfig.taints[0].effect",
            "NO_SCHEDULE",
        ),
        (gke.POOL_TYPE, {"nodeConfig.maxRunDuration": "7d"}, "nodeConfig.maxRunDuration", "matches"),
        (gke.POOL_TYPE, {"nodeConfig.nodeGroup": "mine"}, "nodeConfig.nodeGroup", "no table maps"),
        (gke.CLUSTER_TYPE, {"releaseChannel.channel": "UNSPECIFIED"}, "releaseChannel.channel", "deprecated"),
        (eks.NODE_GROUP_TYPE, {"capacityType": "QUEUED"}, "capacityType", "CAPACITY_BLOCK"),
        (eks.NODE_GROUP_TYPE, {"scalingConfig.maxSize": 0}, "scalingConfig.maxSize", "at least 1"),
        (TEMPLATE, {"metadataOptions.httpTokens": "always"}, "metadataOptions.httpTokens", "required"),
        (TEMPLATE, {"ebsOptimized": "maybe"}, "ebsOptimized", "boolean"),
    ],
)
def test_what_the_definitions_refuse_is_refused(
    token: str, edits: dict[str, Any], path: str, said: str
) -> None:
    refusals = judge(TABLES[token], edited(LEGAL[token], edits), rules_of(token))
    assert [(each.path, said in each.reason) for each in refusals] == [(path, True)], refusals


def test_deprecations_are_read_from_every_definition() -> None:
    assert google.field("container.v1", "Cluster", "masterAuthorizedNetworksConfig.cidrBlocks").deprecated
    assert google.field("container.v1", "Cluster", "releaseChannel.channel").deprecated_choices == {
        "UNSPECIFIED"
    }
    assert amazon.field("eks", "CreateCluster", "encryptionConfig.resources").deprecated
    assert sdk.is_deprecated(ClusterArgs, "enterpriseConfig.desiredTier")
    assert sdk.is_deprecated(ClusterArgs, "binaryAuthorization.enabled")
    assert not sdk.is_deprecated(ClusterArgs, "binaryAuthorization.evaluationMode")


@pytest.mark.parametrize("stack", [*OWN.values(), *SHIPPED], ids=lambda stack: stack.stem)
def test_no_stack_asks_for_what_is_deprecated(stack: Path) -> None:
    refusals = [
        (each.name, str(refusal))
        for each in registered(stack).values()
        for refusal in judge(TABLES[each.type], plain(each.inputs), {})
    ]
    assert [each for each in refusals if "deprecated" in each[1]] == []


@pytest.mark.parametrize(("token", "path"), ALLOWED)
def test_what_is_allowed_although_deprecated_is_deprecated_still(token: str, path: str) -> None:
    table = TABLES[token]
    below = [each for each in table.inputs if f"{each}.".startswith(f"{path}.")]
    fields = [field for each in below for field in api_fields(table, table.inputs[each])]
    assert any(field.deprecated or field.deprecated_choices for field in fields)


def test_what_a_preview_does_not_know_yet_is_let_by() -> None:
    inputs = edited(LEGAL[gke.POOL_TYPE], {"cluster": UNKNOWN, "nodeConfig.serviceAccount": UNKNOWN})
    assert judge(TABLES[gke.POOL_TYPE], inputs, rules_of(gke.POOL_TYPE)) == []


@pytest.mark.parametrize(("latter", "replaces"), [("10.0.0.0/19", False), ("10.0.0.0/21", True)])
def test_a_range_grows_in_place_and_shrinks_by_replacement(latter: str, replaces: bool) -> None:
    table, inputs = TABLES[compute.SUBNETWORK_TYPE], {"ipCidrRange": "10.0.0.0/20"}
    found = changes(table, inputs, {"ipCidrRange": latter})
    assert [change.replaces for change in found.values()] == [replaces]


def test_a_change_deep_in_an_input_is_told_by_its_own_path() -> None:
    table, legal = TABLES[gke.POOL_TYPE], LEGAL[gke.POOL_TYPE]
    grown = edited(legal, {"autoscaling.totalMaxNodeCount": 9, "nodeConfig.labels": {"muster.dev/pool": "x"}})
    found = changes(table, legal, grown)
    assert {path: change.replaces for path, change in found.items()} == {
        "autoscaling.totalMaxNodeCount": False,
        'nodeConfig.labels["cloud.google.com/gke-queued"]': False,
        'nodeConfig.labels["muster.dev/pool"]': False,
    }
    bought = edited(legal, {"nodeConfig.guestAccelerators.0.count": 4})
    assert [each.replaces for each in changes(table, legal, bought).values()] == [True]


def test_what_the_cloud_fills_in_stays_when_the_program_says_it_no_more() -> None:
    table, legal = TABLES[gke.POOL_TYPE], LEGAL[gke.POOL_TYPE]
    said = edited(legal, {"nodeLocations": ["us-central1-a"]})
    assert changes(table, said, edited(said, {"nodeLocations": None})) == {}
    assert changes(table, edited(said, {"nodeLocations": None}), said)
    moved = changes(table, edited(said, {"nodeLocations": ["us-central1-a", "us-central1-b"]}), said)
    assert {each.replaces for each in moved.values()} == {False}
    assert changes(table, said, edited(said, {"nodeConfig.taints": None})), "nobody fills taints in"
