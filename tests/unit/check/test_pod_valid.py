"""A template of which no pod can be made is refused before nodes are bought, in every group at once."""

import pytest

from tests.unit.check.stacks import job, judged, ray_job, refusals
from tests.unit.check.templates import BAD, GOOD, GPU, resources, worker


@pytest.mark.parametrize("tenancy", ["enforce", "off"])
@pytest.mark.parametrize("what", BAD)
def test_what_the_api_server_takes_for_no_pod_is_refused_in_every_group(what: str, tenancy: str) -> None:
    template, told = BAD[what]
    found = judged(ray_job(template, template), tenancy={"mode": tenancy})
    assert not found.answer.is_admitted
    assert told in refusals(found)
    for group in ("group-0", "group-1"):
        assert f"In spec.rayClusterSpec.workerGroupSpecs of {group}: " in refusals(found)


def test_the_templates_of_a_job_have_the_same_rules_and_end() -> None:
    assert f"requests of {GPU}" in refusals(judged(job(worker(resources=resources(requests={GPU: 1})))))
    forever = job(worker({"restartPolicy": "Always"}))
    forever["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    assert "set restartPolicy to Never or OnFailure" in refusals(judged(forever))


@pytest.mark.parametrize("what", GOOD)
def test_what_makes_a_pod_is_admitted(what: str) -> None:
    found = judged(ray_job(GOOD[what]))
    assert found.answer.is_admitted, refusals(found)
