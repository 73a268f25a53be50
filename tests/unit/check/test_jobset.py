"""A JobSet is judged as the Jobs that its groups become: counted, filled in, refused with its group named."""

from typing import Any

from tests.unit.check.stacks import fitting, judged, pod, refusals

Json = dict[str, Any]
SERVED = ["ray", "job", "jobset"]


def job_set(**shapes: Json) -> Json:
    """Two Jobs of two pods for each shape, beside a driver."""
    driver = {"name": "driver", "template": {"spec": {"template": _restarted(pod())}}}
    groups = [
        {
            "name": name,
            "replicas": 2,
            "template": {"spec": {"parallelism": 2, "completions": 4, "template": _restarted(template)}},
        }
        for name, template in shapes.items()
    ]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train"},
        "spec": {"replicatedJobs": [driver, *groups]},
    }


def in_order() -> Json:
    body = job_set(h100=pod(8))
    body["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    return body


def depending() -> Json:
    body = job_set(h100=pod(8))
    body["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Ready"}]
    return body


def _restarted(template: Json) -> Json:
    return {"spec": {**template["spec"], "restartPolicy": "Never"}}


def test_each_group_is_counted_and_gets_what_an_author_may_leave_out() -> None:
    found = judged(job_set(l4=pod(1), h100=pod(8)), work=SERVED)
    assert found.answer.is_admitted, refusals(found)
    assert {each.name: each.pods for each in found.demands} == {"driver": 1, "l4": 4, "h100": 4}
    assert fitting(found, "h100") == {"h100"}
    paths = {path for path, _ in found.answer.filled}
    assert "spec.replicatedJobs[2].template.spec.template.spec.tolerations" in paths


def test_what_never_fits_is_refused_with_its_group() -> None:
    found = judged(job_set(l4=pod(9), h100=pod(16)), work=SERVED)
    assert "h100" in refusals(found)
    assert not fitting(found, "h100")


def test_what_its_webhook_fills_in_is_not_missing() -> None:
    """JobSet's own samples leave the names of failure rules out."""
    body = job_set(l4=pod(1))
    body["spec"]["failurePolicy"] = {"maxRestarts": 3, "rules": [{"action": "FailJobSet"}]}
    found = judged(body, work=SERVED)
    assert found.answer.is_admitted, refusals(found)


def test_its_controller_makes_no_volumes_past_those_of_the_team() -> None:
    body = job_set(l4=pod(1))
    body["spec"]["volumeClaimPolicies"] = [{"templates": [{"metadata": {"name": "data"}, "spec": {}}]}]
    assert "remove spec.volumeClaimPolicies" in refusals(judged(body, work=SERVED))


def test_it_waits_for_no_controller_of_another_cluster() -> None:
    body = job_set(l4=pod(1))
    body["spec"]["replicatedJobs"][1]["template"]["spec"]["managedBy"] = "example.com/other"
    assert "no controller in this cluster starts work managed by example.com/other" in refusals(
        judged(body, work=SERVED)
    )


def test_two_groups_of_one_name_are_refused() -> None:
    """The API server takes one of each name, by JobSet's definition."""
    body = job_set(l4=pod(1))
    body["spec"]["replicatedJobs"][1]["name"] = "driver"
    assert "spec.replicatedJobs has several of name driver" in refusals(judged(body, work=SERVED))
