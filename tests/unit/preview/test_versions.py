"""A report names each version that changes, with the verdict on the step."""

from muster.model.clusters import Provider
from muster.model.stack import Stack
from muster.preview.failing import FailOn, failures
from muster.preview.json_report import to_json
from muster.preview.markdown import format_comment
from muster.preview.report import to_report
from tests.unit.model.model_stacks import new_config, new_stack
from tests.unit.preview.preview_world import diff


def stack(**versions: str) -> Stack:
    return new_stack(Provider.EKS, versions=versions)


def test_a_step_that_needs_an_order_is_shown_with_it() -> None:
    found = diff(stack(kuberay="1.5.1"), stack(kuberay="1.6.2"))
    text = format_comment(to_report([found]))
    assert "1 version that needs an order" in text
    assert "kubectl apply --server-side" in text
    assert not found.is_refused
    assert failures([found], [FailOn.REFUSED]) == []
    (step,) = to_json([found])["stacks"][0]["versions"]
    assert (step["component"], step["verdict"]) == ("kuberay", "needs an order")


def test_a_refused_step_makes_the_stack_refused_and_can_fail_the_command() -> None:
    found = diff(stack(kuberay="1.6.2"), stack(kuberay="1.5.1"))
    assert found.is_refused
    assert "Refused: kuberay cannot go from `1.6.2` to `1.5.1`." in format_comment(to_report([found]))
    assert len(failures([found], [FailOn.REFUSED])) == 1


def test_the_version_to_which_a_cloud_raised_the_cluster_is_not_refused() -> None:
    cluster = new_config(Provider.EKS)["muster:cluster"]
    before, after = (
        new_stack(Provider.EKS, cluster={**cluster, "version": each}) for each in ("1.34", "1.36")
    )
    found = diff(before, after)
    assert not found.is_refused
    assert "name the version that it runs" in format_comment(to_report([found]))


def test_the_same_versions_are_no_change() -> None:
    assert diff(stack(), stack(kuberay="1.6.2")).changes.versions == ()  # type: ignore[union-attr]
