"""Who may tolerate the taint that keeps nodes for one gang: what controllers write, and no tenant."""

from typing import Any

import pytest

from muster.check.policies import Policies, Question
from muster.config.stack import load
from muster.model.names import HELD_TAINT_KEY, TEAM_LABEL
from muster.render import tenancy
from tests.unit.check.stacks import placeholders_of_the_local_stack

Json = dict[str, Any]
OWN = {"key": HELD_TAINT_KEY, "operator": "Equal", "value": "muster-own-0", "effect": "NoSchedule"}
OTHERS = {**OWN, "value": "muster-other-0"}
EVERY = {"key": HELD_TAINT_KEY, "operator": "Exists"}
TENANT = "system:serviceaccounts:team-a"
JOBS = "system:serviceaccounts:kube-system"
KUEUE = "system:serviceaccounts:kueue-system"


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Policies:
    path = tmp_path_factory.mktemp("placed") / "Pulumi.placed.yaml"
    path.write_text(placeholders_of_the_local_stack())
    return Policies(each for listed in tenancy.policies(load(path)) for each in listed)


def spec(*tolerations: Json) -> Json:
    return {"containers": [{"name": "c", "image": "i"}], "tolerations": list(tolerations)}


def a_job(*tolerations: Json) -> Json:
    return {
        "metadata": {"name": "j", "namespace": "team-a"},
        "spec": {"template": {"spec": spec(*tolerations)}},
    }


def a_pod(*tolerations: Json, owner: str = "") -> Json:
    owners = [{"apiVersion": "batch/v1" if owner == "Job" else "apps/v1", "kind": owner, "controller": True}]
    meta = {"name": "p", "namespace": "team-a", "ownerReferences": owners if owner else []}
    return {"metadata": meta, "spec": spec(*tolerations)}


def refused(policies: Policies, now: Json, *, by: str = TENANT, before: Json | None = None) -> bool:
    is_pod = "template" not in now["spec"]
    group, resource = ("", "pods") if is_pod else ("batch", "jobs")
    operation = "CREATE" if before is None else "UPDATE"
    request = {
        "operation": operation,
        "resource": {"group": group, "version": "v1", "resource": resource},
        "userInfo": {"username": "u", "groups": [by]},
        "name": now["metadata"]["name"],
        "namespace": "team-a",
    }
    space = {"metadata": {"name": "team-a", "labels": {TEAM_LABEL: "team-a"}, "annotations": {}}}
    known = {
        "object": now,
        "oldObject": before,
        "request": request,
        "namespaceObject": space,
        "authorizer": {},
    }
    found = policies.judge(
        Question(group=group, version="v1", resource=resource, operation=operation, variables=known)
    )
    fixes = (f"remove the toleration of {HELD_TAINT_KEY}", "name the key of each of tolerations")
    return any(fix in each.message for each in found for fix in fixes)


@pytest.mark.parametrize("toleration", [OWN, EVERY, {"key": HELD_TAINT_KEY, "value": "muster-other-0"}])
def test_a_tenant_writes_none_in_a_job_or_a_pod(policies: Policies, toleration: Json) -> None:
    assert refused(policies, a_job(toleration))
    assert refused(policies, a_pod(toleration))
    assert refused(policies, a_pod(toleration), before=a_pod())


def test_what_runs_keeps_its_own_and_gets_no_other(policies: Policies) -> None:
    assert not refused(policies, a_job(OWN), before=a_job(OWN))
    for other in (OTHERS, EVERY):
        assert refused(policies, a_job(other), before=a_job(OWN))


def test_controllers_write_it_for_admitted_work(policies: Policies) -> None:
    assert not refused(policies, a_job(OWN), by=KUEUE, before=a_job())
    assert not refused(policies, a_pod(OWN, owner="Job"), by=JOBS)


@pytest.mark.parametrize("toleration", [OWN, EVERY, {"operator": "Exists"}])
def test_the_pods_of_a_deployment_get_it_from_no_tenant(policies: Policies, toleration: Json) -> None:
    """Nor a toleration of every taint: no policy judges the template of a Deployment."""
    assert refused(policies, a_pod(toleration, owner="ReplicaSet"), by=JOBS)
    assert not refused(policies, a_pod(owner="ReplicaSet"), by=JOBS)
