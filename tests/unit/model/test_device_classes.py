"""Devices that work claims: which quota they take, and which claims no queue admits."""

from typing import Any

import pytest
import yaml

from muster.config.document import parse_text
from muster.config.stack import examine
from muster.render import kueue
from muster.render.queuetree import queue_tree
from tests.unit.model.model_stacks import parsed, specs, stack_text

CHANNELS = "compute-domain-default-channel.nvidia.com"
DEVICES = "muster.dev/uncounted-devices"
GB200 = {"cpu": 140, "memory": "860Gi", "gpus": 4, "accelerator": "nvidia-gb200", "gpuMemory": "186Gi"}


def text_of(classes: dict[str, str], **team: Any) -> str:
    config = {
        "cluster": {"provider": "existing", "name": "x", "context": "x", "autoscaler": "none"},
        "pools": {
            "cpu": {"node": {"cpu": 30, "memory": "120Gi"}, "maxNodes": 2, "minNodes": 2},
            "gb200": {"node": GB200, "maxNodes": 18, "minNodes": 18},
        },
        "kueue": {"deviceClasses": classes},
        "departments": {"all": {"teams": {"a": {"quota": {"gb200": 72}, **team}}}},
    }
    return stack_text(config)


def mistakes(classes: dict[str, str]) -> dict[str, str]:
    _, found = examine(parse_text(text_of(classes), source="x"))
    return {each.path: each.message for each in found if each.level == "error"}


def test_a_class_without_quota_is_more_in_every_flavor_than_nodes_have() -> None:
    stack = parsed(text_of({CHANNELS: "uncounted"}))
    assert kueue.manager_config(stack)["resources"] == {
        "deviceClassMappings": [{"name": DEVICES, "deviceClassNames": [CHANNELS]}]
    }
    (group,) = specs(stack, "ClusterQueue")["a"]["resourceGroups"]
    assert group["coveredResources"][-1] == DEVICES
    for flavor in group["flavors"]:
        assert flavor["resources"][-1] == {"name": DEVICES, "nominalQuota": "1M"}
    bounds = queue_tree(stack).spaces["a"].queues[0].limits
    assert DEVICES not in str(bounds), "no figure for people"


def test_groups_of_a_teams_own_cover_it_too() -> None:
    groups = [
        {
            "coveredResources": ["cpu"],
            "flavors": [{"name": "cpu", "resources": [{"name": "cpu", "nominalQuota": 8}]}],
        }
    ]
    stack = parsed(text_of({CHANNELS: "uncounted"}, quota={}, kueue={"resourceGroups": groups}))
    made = specs(stack, "ClusterQueue")["a"]["resourceGroups"]
    assert [group["coveredResources"] for group in made] == [["cpu", DEVICES]]


def test_a_class_with_quota_is_counted_as_the_resource_that_teams_have() -> None:
    quota = {"gb200": {"gpus": 72, "resources": {"example.com/nic": 8}}}
    stack = parsed(
        text_of({"nic.example.com": "example.com/nic", "gpu.nvidia.com": "nvidia.com/gpu"}, quota=quota)
    )
    assert kueue.manager_config(stack)["resources"]["deviceClassMappings"] == [
        {"name": "example.com/nic", "deviceClassNames": ["nic.example.com"]},
        {"name": "nvidia.com/gpu", "deviceClassNames": ["gpu.nvidia.com"]},
    ]
    (group,) = specs(stack, "ClusterQueue")["a"]["resourceGroups"]
    assert DEVICES not in group["coveredResources"]


def test_eight_classes_are_counted_as_one_resource() -> None:
    assert mistakes({f"c{number}.example.com": "uncounted" for number in range(8)}) == {}


@pytest.mark.parametrize(
    ("classes", "path", "words"),
    [
        ({"nic.example.com": "example.com/nic"}, ".nic.example.com", "no team has quota of example.com/nic"),
        ({"nic.example.com": "cpu"}, ".nic.example.com", "no team has quota of cpu"),
        ({"not a class": "uncounted"}, ".not a class", "is not the name of a DeviceClass"),
        ({f"c{number}.example.com": "uncounted" for number in range(9)}, "", "Kueue takes 8"),
    ],
)
def test_what_kueue_would_not_start_with_or_never_admit_is_refused(
    classes: dict[str, str], path: str, words: str
) -> None:
    found = mistakes(classes)
    assert [words in message for place, message in found.items() if place.endswith(path)] == [True]


@pytest.mark.parametrize("cloud", ["gke", "eks"])
def test_pods_tolerate_the_taint_that_gke_gives_to_arm64_nodes(cloud: str) -> None:
    config = yaml.safe_load(text_of({}))
    config["config"]["muster:cluster"]["cloud"] = cloud
    flavors = specs(parsed(yaml.safe_dump(config)), "ResourceFlavor")
    tolerated = [{"key": "kubernetes.io/arch", "operator": "Exists", "effect": "NoSchedule"}]
    assert flavors["gb200"].get("tolerations", []) == (tolerated if cloud == "gke" else [])
    assert "tolerations" not in flavors["cpu"]
