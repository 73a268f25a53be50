"""A stack's word for a recorder becomes objects that read, keep what they read, and do nothing else."""

import json
from dataclasses import replace
from typing import Any

import pytest

from muster.local.builder.images import PLAYER_PLACE
from muster.model import names
from muster.model.clusters import Provider
from muster.model.observability import RecordingSettings
from muster.model.quantities import GIB
from muster.model.stack import Scheduler, Stack
from muster.render import recorder
from muster.render.manifest import Manifest
from tests.unit.model.model_stacks import new_mistakes, new_stack

_FAIR: dict[str, Any] = {"admissionFairSharing": {"usageHalfLifeTime": "168h"}}
IMAGE = f"registry.test/gang-admission@sha256:{'ab' * 32}"


def stack(*, more: dict[str, Any] | None = None, **said: object) -> Stack:
    return new_stack(Provider.GKE, recording=said, **(more or {}))


def refused(*, more: dict[str, Any] | None = None, **said: object) -> list[str]:
    return [*new_mistakes(Provider.GKE, recording=said, **(more or {}))]


def objects(scheduler: Scheduler = Scheduler.KUEUE, **said: Any) -> dict[str, Manifest]:
    described = replace(stack(**{"enabled": True, **said}), scheduler=scheduler)
    found = recorder.objects(described, image=IMAGE, node_selector={"pool": "system"})
    return {each["kind"]: each for each in (recorder.volume(described.recording), *found)}


def test_nothing_is_recorded_unless_the_stack_says_so() -> None:
    assert stack().recording == RecordingSettings()
    assert not RecordingSettings().enabled


def test_the_keys_of_the_section_are_read() -> None:
    said = stack(enabled=True, storage="20Gi", storageClass="fast", names=True).recording
    assert said == RecordingSettings(enabled=True, storage=said.storage, storage_class="fast", names=True)
    assert said.storage == 20 * GIB


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"storage": "10 gigabytes"}, "storage"),
        ({"storage": "100Mi"}, "storage"),
        ({"names": True}, "names"),
        ({"ephemeral": True}, "ephemeral"),
        ({"forecasts": True}, "forecasts"),
        ({"enabled": True, "forecasts": True, "more": {"kueue": _FAIR}}, "forecasts"),
        ({"enabled": True, "ephemeral": True, "storageClass": "fast"}, "storageClass"),
        ({"keep": "1Gi"}, "keep"),
        ({"enabled": True, "more": {"gangAdmission": "off"}}, "enabled"),
    ],
)
def test_what_cannot_be_recorded_is_refused_at_its_key(said: dict[str, Any], path: str) -> None:
    assert refused(**said) == [f"muster:recording.{path}"]


def test_forecasts_with_kai_are_refused() -> None:
    assert "muster:recording.forecasts" in refused(enabled=True, forecasts=True, more={"scheduler": "kai"})


@pytest.mark.parametrize("scheduler", Scheduler)
def test_the_account_may_list_and_watch_and_nothing_else(scheduler: Scheduler) -> None:
    rules = objects(scheduler)["ClusterRole"]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list", "watch"}
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert resources.isdisjoint({"secrets", "configmaps"})


def test_where_gangs_ask_by_placeholders_the_account_may_list_these_pods_and_no_others() -> None:
    machine = {"accelerator": "nvidia-l4", "machine": "g2-standard-8", "maxNodes": 8}
    pools = {
        "cpu": {"machine": "e2-standard-8", "maxNodes": 10},
        "l4": {**machine, "capacity": "on-demand", "gangs": "placeholders"},
    }
    found = objects(more={"pools": pools})
    assert found["Role"]["metadata"]["namespace"] == names.PLACEHOLDER_NAMESPACE
    assert found["Role"]["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    assert found["RoleBinding"]["metadata"]["namespace"] == names.PLACEHOLDER_NAMESPACE
    assert "Role" not in objects()


def test_a_recorder_that_forecasts_may_also_list_queues_and_patch_workloads() -> None:
    rights = {
        (verb, resource)
        for rule in objects(forecasts=True)["ClusterRole"]["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }
    plain = {
        (verb, resource)
        for verb in ("list", "watch")
        for resource in ("workloads", "nodes", "provisioningrequests")
    }
    assert rights - plain == {
        ("patch", "workloads"),
        *(
            ("list", each)
            for each in ("clusterqueues", "cohorts", "localqueues", "resourceflavors", "namespaces")
        ),
    }


def test_the_forecaster_reads_the_recording_and_knows_kueues_configuration() -> None:
    spec = objects(forecasts=True)["Deployment"]["spec"]["template"]["spec"]
    writer, reader = spec["containers"]
    assert [each["readOnly"] for each in reader["volumeMounts"]] == [True]
    assert reader["volumeMounts"][0]["mountPath"] == writer["volumeMounts"][0]["mountPath"]
    assert reader["securityContext"] == writer["securityContext"]
    assert reader["resources"]["limits"]["memory"]
    found = next(each for each in reader["args"] if each.startswith("--configuration="))
    assert json.loads(found.partition("=")[2])["kind"] == "Configuration"
    assert recorder.PLAYER == PLAYER_PLACE


def test_names_are_written_only_where_they_were_asked_for() -> None:
    assert "--with-names" not in _container(objects())["args"]
    assert "--with-names" in _container(objects(names=True))["args"]


def test_the_recording_fits_its_volume() -> None:
    found = objects(storage="10Gi")
    assert found["PersistentVolumeClaim"]["spec"]["resources"]["requests"]["storage"] == "10Gi"
    kept = next(each for each in _container(found)["args"] if each.startswith("--keep="))
    assert int(kept.partition("=")[2]) + 2 * recorder.ROTATE_MIB < 10 * 1024


def test_an_ephemeral_recording_needs_no_claim_and_is_as_large() -> None:
    (volume,) = objects(ephemeral=True, storage="2Gi")["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert volume == {"name": "recordings", "emptyDir": {"sizeLimit": "2Gi"}}
    (volume,) = objects()["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert volume == {"name": "recordings", "persistentVolumeClaim": {"claimName": recorder.NAME}}


def test_the_old_pod_has_gone_before_a_new_one_writes_the_file() -> None:
    spec = objects()["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_nothing_comes_in_to_its_pod() -> None:
    found = objects()
    policy, pods = found["NetworkPolicy"]["spec"], found["Deployment"]["spec"]["template"]["metadata"]
    assert (policy["policyTypes"], policy["ingress"]) == (["Ingress"], [])
    assert policy["podSelector"]["matchLabels"] == pods["labels"]


def _container(found: dict[str, Manifest]) -> Manifest:
    (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(container)
