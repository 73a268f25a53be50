"""What KubeRay takes for valid stays allowed, and what it refuses is known for the version that is pinned. A
schedule is refused by `muster check` where the API server refuses it.
"""

from __future__ import annotations

import random
from hashlib import sha256
from typing import Any, Final

import pytest

from muster.check.validity import validity_faults
from muster.local.builder import versions
from tests.integration.tenancy import works
from tests.integration.tenancy.cluster import Object, allowed, refused
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import annotated, cluster_spec, head, named, template
from tests.unit.check.templates import BAD, GOOD
from tests.unit.model.go_modules import source_of

_VALIDATION: Final = "controllers/ray/utils/validation.go"
_CONTROLLER: Final = "controllers/ray/raycluster_controller.go"
_STEPS: Final = [
    *("AutoscalerServiceAccount", "AutoscalerRole", "AutoscalerRoleBinding", "Ingress", "AuthSecret"),
    *("HeadService", "HeadlessService", "ServeService", "Pods"),
]
# Of KubeRay 1.6.2. Each of its checks is in muster-ray-valid.yaml, in another policy, or in the definitions.
_JUDGED: Final = "4f41d58b94600cae8f6c3db282cea07948905c80c3c7a3c6fd7cf6ce1a3c8b16"


def test_every_check_of_the_pinned_kuberay_has_been_judged() -> None:
    program = versions.load().programs["kuberay"]
    found = source_of(f"{program.module}@{program.version}", _VALIDATION)
    assert sha256(found.read_bytes()).hexdigest() == _JUDGED, (
        "KubeRay validates anew: compare validation.go with muster-ray-valid.yaml (render/tenancy/policies); "
        "add what is new with an attack (attacks/validity.py), and write the digest here"
    )


def test_every_step_before_kuberay_stops_pods_has_been_judged() -> None:
    """An error in one of them, and no pod of the cluster is stopped."""
    program = versions.load().programs["kuberay"]
    text = source_of(f"{program.module}@{program.version}", _CONTROLLER).read_text()
    _, _, steps = text.partition("reconcileFuncs := []reconcileFunc{")
    found = [step.strip().removeprefix("r.reconcile") for step in steps.partition("}")[0].split(",")]
    assert found[:-1] == _STEPS, (
        "judge what a tenant can make fail in it (muster-ray-valid.yaml), with an attack"
    )


def _cluster(**spec: Any) -> Object:
    return works.ray_cluster(**spec)


def _workers(**fields: Any) -> Object:
    spec = cluster_spec()
    spec["workerGroupSpecs"][0] |= fields
    return works.ray_cluster(**spec)


def _redis() -> Object:
    password = {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}}
    return {"redisAddress": "redis:6379", "redisPassword": password, "externalStorageNamespace": "a"}


def _scaled() -> Object:
    spec = cluster_spec(
        headGroupSpec=head(template=template(restart="Never")),
        enableInTreeAutoscaling=True,
        autoscalerOptions={"version": "v2", "idleTimeoutSeconds": 0},
    )
    spec["workerGroupSpecs"][0] |= {"idleTimeoutSeconds": 60, "template": template(1, restart="Never")}
    return annotated(works.ray_cluster(**spec), "kueue.x-k8s.io/elastic-job", "true")


VALID: Final[dict[str, Object]] = {
    "labels of groups": _workers(labels={"example.com/rack": "r1", "zone": "", "a.b_c-D": "E.f_g-H"}),
    "resources of groups": _workers(resources={"GPU": "1"}, rayStartParams={"object-store-memory": "1"}),
    "resources among the flags": _cluster(headGroupSpec=head(rayStartParams={"num-cpus": "0"})),
    "Redis by its field": _cluster(gcsFaultToleranceOptions=_redis()),
    "fault tolerance by the annotation": annotated(works.ray_cluster(), "ray.io/ft-enabled", "true"),
    "the second autoscaler": _scaled(),
    "a version with more than numbers": _cluster(rayVersion="2.54.1-py311.cu121"),
    "a version to come": _cluster(rayVersion="3.0.0.dev0"),
    "a token of Kubernetes": _cluster(
        rayVersion="2.55.0", authOptions={"mode": "token", "enableK8sTokenAuth": True}
    ),
    "a sidecar": works.ray_job(
        submissionMode="SidecarMode",
        rayClusterSpec=cluster_spec(headGroupSpec=head(template=template(restart="Never"))),
    ),
    "retries and a deadline": works.ray_job(backoffLimit=3, activeDeadlineSeconds=60),
    "a runtime environment": works.ray_job(runtimeEnvYAML="pip: [torch]"),
    **{
        f"a timeout of {value}": annotated(works.ray_service(), "ray.io/initializing-timeout", value)
        for value in ("30m", "1h30m", "1.5h", "600")
    },
}


@pytest.mark.parametrize("what", VALID)
def test_what_kuberay_takes_is_admitted(world: World, what: str) -> None:
    allowed(world.member.create(VALID[what]))


@pytest.mark.parametrize("what", BAD)
def test_what_makes_no_pod_is_refused(world: World, what: str) -> None:
    made, told = BAD[what]
    answer = world.member.create(_workers(template=made))
    assert not answer.is_allowed
    # Some are refused by KubeRay's definitions first.
    assert told in answer.message or "muster-pod-valid" not in answer.message


@pytest.mark.parametrize("what", GOOD)
def test_what_makes_a_pod_is_admitted(world: World, what: str) -> None:
    allowed(world.member.create(_workers(template=GOOD[what])))


def test_what_was_invalid_before_stays_changeable_and_is_mended(world: World) -> None:
    """Of before the policy: its author mends one field at a time."""
    spec = cluster_spec(headGroupSpec=head(rayStartParams={"labels": "a=b"}), rayVersion="2.54.0")
    body = world.member.ensure(named(works.ray_cluster(), "invalid-before"))
    allowed(world.controllers["kueue"].patch(body, {"spec": spec}, dry_run=False))
    for caller in world.tenants:
        assert caller.patch(body, {"metadata": {"annotations": {"note": "x"}}}).is_allowed
        mended = {"spec": {"headGroupSpec": {"rayStartParams": {"labels": None}}}}
        assert caller.patch(body, mended).is_allowed
        refused(caller.patch(body, {"metadata": {"labels": {"a": "b"}}, "spec": {"rayVersion": "2.5x"}}))


_PARTS: Final = (
    *("*", "?", "0", "5", "31", "59", "60", "-1", "1-5", "5-1", "*/2", "*/0", "1/3", "1-9/4", "1-2-3", "1,2"),
    *("jan", "JAN-mar", "mon-fri", "7", "sunday", "", "*-3", "L", "1.5", "1,61"),
)
_SCHEDULES: Final = (
    *("@daily", "@every 1h30m", "@every", "@noon", "@hourly ", "TZ=UTC 0 * * * *", "0 * * *", "0 0 * * * *"),
)


def test_a_schedule_is_refused_as_the_api_server_refuses_it(world: World) -> None:
    dice = random.Random(5)
    drawn = (" ".join(dice.choices(_PARTS, k=5)) for _ in range(100))
    plain = (" ".join((*["*"] * place, part, *["*"] * (4 - place))) for place in range(5) for part in _PARTS)
    refused = 0
    for schedule in (*_SCHEDULES, *drawn, *plain):
        body = works.cron_job()
        body["spec"]["schedule"] = schedule
        answer = world.member.create(body)
        faults = [each for each in validity_faults(body) if "schedule" in each]
        assert bool(faults) is not answer.is_allowed, (schedule, faults, answer.message)
        refused += bool(faults)
    assert 50 < refused < 220


def test_kueue_stops_and_starts_a_job_with_its_runtime_environment(world: World) -> None:
    body = world.member.ensure(named(works.ray_job(runtimeEnvYAML="pip: [torch]"), "with-an-environment"))
    allowed(world.controllers["kueue"].patch(body, {"spec": {"suspend": False}}))
    allowed(world.member.patch(body, {"spec": {"activeDeadlineSeconds": 60}}))
