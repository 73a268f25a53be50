"""`muster check` of a job that claims devices: Kueue answers after admission, and no Event shows it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.check.admission import Admission
from tests.unit.model.model_stacks import parsed
from tests.unit.model.test_device_classes import CHANNELS, text_of

MAPPED = {CHANNELS: "uncounted"}


def job(**claim: str) -> dict[str, Any]:
    gpus = {"limits": {"nvidia.com/gpu": 4}, "claims": [{"name": "imex"}]}
    spec = {
        "restartPolicy": "Never",
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "resourceClaims": [{"name": "imex", **claim}],
        "containers": [{"name": "main", "image": "example.com/nccl:1", "resources": gpus}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "nccl"},
        "spec": {"parallelism": 2, "completions": 2, "template": {"spec": spec}},
    }


def domain(mode: str = "Single") -> dict[str, Any]:
    channel = {"resourceClaimTemplate": {"name": "nccl"}, "allocationMode": mode}
    spec = {"numNodes": 0, "channel": channel}
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": "nccl"},
        "spec": spec,
    }


def template(**request: Any) -> dict[str, Any]:
    requests = [{"name": "one", **request}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "nccl"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


def refusals(
    classes: dict[str, str], *beside: dict[str, Any], tenancy: str = "enforce", **claim: str
) -> list[str]:
    text = yaml.safe_load(text_of(classes))
    text["config"]["muster:tenancy"] = {"mode": tenancy}
    admission = Admission(parsed(yaml.safe_dump(text)), "a", beside=beside)
    found = admission.review(job(**(claim or {"resourceClaimTemplateName": "nccl"})))
    return [f"{each.level.value}: {each.message}" for each in found.findings]


def test_a_gang_in_a_compute_domain_is_admitted_where_its_class_is_mapped() -> None:
    assert refusals(MAPPED, domain()) == []


def test_a_job_that_claims_the_template_named_after_it_needs_no_file_of_its_domain() -> None:
    assert refusals(MAPPED, resourceClaimTemplateName="nccl-compute-domain") == []
    (warned,) = refusals(MAPPED, resourceClaimTemplateName="other-compute-domain")
    assert "nccl-compute-domain is made for this job" in warned


def test_no_domain_is_promised_where_its_class_is_not_mapped() -> None:
    found = refusals({"nic.example.com": "uncounted"}, resourceClaimTemplateName="nccl-compute-domain")
    assert any(each.startswith("warned") for each in found), found


@pytest.mark.parametrize("tenancy", ["enforce", "warn", "off"])
def test_no_claim_is_admitted_where_no_class_is_mapped(tenancy: str) -> None:
    found = refusals({}, domain(), tenancy=tenancy)
    (refused,) = [each for each in found if each.startswith("refused")]
    assert "resourceClaims" in refused
    assert "muster:kueue.deviceClasses" in refused


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        (domain("All"), "write allocationMode: Single"),
        (template(exactly={"deviceClassName": "gpu.nvidia.com"}), "gpu.nvidia.com is mapped to no quota"),
        (template(exactly={"deviceClassName": CHANNELS, "adminAccess": True}), "adminAccess"),
        (template(firstAvailable=[{"name": "any", "deviceClassName": CHANNELS}]), "write exactly"),
    ],
)
def test_a_claim_that_kueue_cannot_count_is_refused(beside: dict[str, Any], words: str) -> None:
    (refused,) = refusals(MAPPED, beside)
    assert refused.startswith("refused: resourceClaims imex, template nccl")
    assert words in refused


@pytest.mark.parametrize("tenancy", ["enforce", "off"])
def test_a_claim_by_its_own_name_is_refused(tenancy: str) -> None:
    (refused,) = refusals(MAPPED, tenancy=tenancy, resourceClaimName="mine")
    assert refused.startswith("refused")
    assert "write resourceClaimTemplateName" in refused


def test_a_template_that_no_file_has_is_a_warning_with_the_classes_that_would_do() -> None:
    (warned,) = refusals(MAPPED)
    assert warned.startswith("warned")
    assert CHANNELS in warned


def test_the_command_reads_templates_of_all_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from muster.cli import main

    stack, work = tmp_path / "Pulumi.rack.yaml", tmp_path / "job.yaml"
    stack.write_text(text_of(MAPPED))
    work.write_text(yaml.safe_dump_all([domain("All"), job(resourceClaimTemplateName="nccl")]))
    assert main(["check", str(work), "--stack", str(stack), "--team", "a"]) == 1
    assert "write allocationMode: Single" in capsys.readouterr().out
