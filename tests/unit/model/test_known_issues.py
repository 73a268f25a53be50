"""Known issues name traits that stacks can have, and a stack gets those of its settings."""

from muster.cloud.doctor.examine import check_known_issues
from muster.model.clusters import Provider
from muster.model.known_issues import KNOWN_ISSUES, issues_of, traits_of
from muster.model.stack import Stack
from tests.unit.model.model_stacks import new_stack


def names(found: Stack) -> set[str]:
    return {each.name for each in issues_of(found)}


def test_an_issue_waits_only_for_traits_that_a_stack_can_have() -> None:
    wanted = {word for issue in KNOWN_ISSUES.values() for each in issue.when for word in each.split("+")}
    assert wanted <= traits_of(new_stack(Provider.GKE)).keys()


def test_a_stack_has_the_issues_of_its_provider_and_scheduler() -> None:
    found = names(new_stack(Provider.GKE))
    assert {"gke-webhook-ports", "no-real-cloud", "service-upgrade"} <= found
    assert not {"eks-disk-key", "kai-one-pool", "quota-during-backoff"} & found
    assert {"eks-disk-key"} <= names(new_stack(Provider.EKS))


def test_a_setting_brings_its_issues() -> None:
    assert "tenancy-open" in names(new_stack(Provider.GKE, tenancy="warn"))
    assert "tenancy-open" not in names(new_stack(Provider.GKE))
    assert "hold-and-webhooks" in names(new_stack(Provider.GKE, gangAdmission={"onStaggered": "hold"}))


def test_the_doctor_writes_issues_without_links() -> None:
    found = {each.message.partition(":")[0]: each for each in check_known_issues(new_stack(Provider.GKE))}
    assert found["no-real-cloud"].fix == "check your first real run."
    assert not any("](" in each.message + each.fix for each in found.values())
