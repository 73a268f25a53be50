"""GangPolicy: what is written is what is read, and every mistake is named at its path."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.gangpolicy import (
    DetailSelector,
    FlavorPolicy,
    GangPolicy,
    KaiPolicy,
    OverQuota,
    crd,
    from_spec,
    to_manifest,
    unknown_fields,
)
from muster.model.quantities import format_duration, parse_duration
from muster.model.violations import Violation
from tests.length import examples

durations = st.integers(min_value=1, max_value=86_400 * 300).map(lambda seconds: timedelta(seconds=seconds))
flavors = st.builds(
    FlavorPolicy,
    name=st.from_regex(r"[a-z][a-z0-9]{0,10}", fullmatch=True),
    provisioning_class_name=st.sampled_from(["", "queued-provisioning.gke.io", "check-capacity.x"]),
    parameters=st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=5), max_size=3),
    node_selector_from_details=st.just((DetailSelector(key="k", detail="d"),)),
    max_nodes=st.integers(min_value=0, max_value=9),
    gpus_per_node=st.integers(min_value=0, max_value=8),
    per_node=st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["3920m", "13Gi", "8"])),
    gpu_taint=st.booleans(),
    gpu_memory=st.integers(min_value=0, max_value=81_920),
    scarcity=st.integers(min_value=0, max_value=9),
)
kai_policies = st.none() | st.builds(KaiPolicy, over_quota=st.sampled_from(OverQuota))


@settings(deadline=None, max_examples=examples(50))
@given(durations)
def test_every_duration_survives_its_spelling(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize("text", ["", "30", "5m1h", "1d", "-3m", "1h 2m", "99999999999h"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|longer"):
        parse_duration(text)


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(flavors, max_size=4, unique_by=lambda flavor: flavor.name), durations, kai_policies)
def test_the_written_policy_reads_back_equal(
    listed: list[FlavorPolicy], timeout: timedelta, kai: KaiPolicy | None
) -> None:
    policy = GangPolicy(flavors=tuple(listed), provision_timeout=timeout, kai=kai)
    assert from_spec(to_manifest(policy)["spec"]) == policy


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ([], "spec"),
        ({"queueTimeuot": "1h"}, "spec.queueTimeuot"),
        ({"queueTimeout": 30}, "spec.queueTimeout"),
        ({"kai": {"overQuota": "perhaps"}}, "spec.kai.overQuota"),
        ({"kai": {"preemptAfter": "soon"}}, "spec.kai.preemptAfter"),
        ({"kai": "yes"}, "spec.kai"),
        ({"provisionTimeout": "0s"}, "spec.provisionTimeout"),
        ({"bookingMargin": "10m"}, "spec.bookingMargin"),
        ({"onStaggered": "hold", "kai": {}}, "spec.onStaggered"),
        ({"retry": {"perMinute": -1}}, "spec.retry.perMinute"),
        ({"placeholderImage": 1}, "spec.placeholderImage"),
        ({"onStockOut": "nextFlavor", "kai": {}}, "spec.onStockOut"),
        ({"onStockOut": "panic"}, "spec.onStockOut"),
        ({"onStaggered": "wait"}, "spec.onStaggered"),
        ({"retry": {"base": "1h", "max": "1m"}}, "spec.retry.max"),
        ({"retry": {"jitterPercent": 101}}, "spec.retry.jitterPercent"),
        ({"managedResources": []}, "spec.managedResources"),
        # The API server takes a list of these for a set of names.
        ({"managedResources": ["nvidia.com/gpu", "nvidia.com/gpu"]}, "spec.managedResources"),
        ({"managedResources": ["nvidia.com/gpu", ""]}, "spec.managedResources"),
        ({"flavors": [{"name": "l4"}, {"name": "l4"}]}, "spec.flavors[1].name"),
        ({"flavors": [{"name": "l4", "maxNodes": True}]}, "spec.flavors[0].maxNodes"),
        ({"flavors": [{"name": "l4", "parameters": {"a": 1}}]}, "spec.flavors[0].parameters.a"),
        (
            {
                "flavors": [
                    {
                        "name": "l4",
                        "provisioningClassName": "queued-provisioning.gke.io",
                        "onePodSetPerRequest": False,
                    }
                ]
            },
            "spec.flavors[0].onePodSetPerRequest",
        ),
    ],
)
def test_a_mistake_is_named_at_its_path_with_a_fix(spec: object, path: str) -> None:
    found = from_spec(spec)
    assert isinstance(found, list)
    assert [violation.path for violation in found] == [path]
    assert all(violation.message and violation.fix for violation in found)


def test_every_mistake_is_named_in_one_look() -> None:
    found = from_spec({"queueTimeout": 1, "retry": {"base": "x"}, "flavors": [{"scarcity": "high"}]})
    assert isinstance(found, list)
    assert [each.path for each in found] == [
        "spec.queueTimeout",
        "spec.retry.base",
        "spec.flavors[0].name",
        "spec.flavors[0].scarcity",
    ]
    assert all(isinstance(violation, Violation) for violation in found)


def test_a_stored_policy_of_a_newer_definition_is_obeyed_for_what_is_known() -> None:
    spec = {"queueTimeout": "1h", "colour": "red", "retry": {"base": "5s", "spread": 3}}
    found = from_spec(spec, is_stored=True)
    assert isinstance(found, GangPolicy)
    assert found.retry.base == timedelta(seconds=5)
    assert unknown_fields(spec) == ["spec.colour", "spec.retry.spread"]
    violations = from_spec(spec)
    assert isinstance(violations, list)
    assert sorted(violation.path for violation in violations) == unknown_fields(spec)
    wrong = from_spec({**spec, "queueTimeout": 1}, is_stored=True)
    assert isinstance(wrong, list)
    assert [violation.path for violation in wrong] == ["spec.queueTimeout"]


def test_the_definition_defaults_to_what_the_reader_defaults_to() -> None:
    spec = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert from_spec({**_defaults(spec), "kai": None}) == GangPolicy()
    assert from_spec({"kai": _defaults(spec["properties"]["kai"])}) == GangPolicy(kai=KaiPolicy())


def _defaults(schema: dict[str, Any]) -> Any:
    if schema["type"] == "object" and "properties" in schema:
        return {key: _defaults(value) for key, value in schema["properties"].items()}
    return schema["default"]
