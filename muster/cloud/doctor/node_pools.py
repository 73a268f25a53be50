"""Whether Karpenter takes away the nodes that came for a gang which failed. Until then they are paid for."""

from collections.abc import Iterator, Mapping
from typing import Final

from muster.cloud.doctor.findings import Finding, failed, passed
from muster.live.cluster.api import Api
from muster.live.fields import Json, items, mapping, text
from muster.live.web import WebError
from muster.model import names
from muster.model.stack import Stack

_CHECK: Final = "empty nodes"
_PATH: Final = "/apis/karpenter.sh/v1/nodepools"
_FOR_EMPTY: Final = "Empty"


def check_node_pools(stack: Stack, api: Api) -> Iterator[Finding]:
    """One finding for each NodePool that makes nodes for gangs and keeps them when they are empty. Without
    Karpenter there are none.
    """
    pools = {pool.name for pool in stack.placeholder_pools}
    if not pools:
        return
    try:
        found: list[Json] = api.list_all(_PATH, mapping)
    except WebError as error:
        if error.status != 404:
            raise
        return
    # One with `replicas` makes nodes for no pod.
    ours = [each for each in found if pools & _pools_of(each) and "replicas" not in mapping(each, "spec")]
    kept = {text(each, "metadata", "name"): fix for each in ours if (fix := _fix(each))}
    for name, fix in kept.items():
        message = (
            f"NodePool {name} keeps empty nodes: those that come for a gang which then fails stay, and are "
            "paid for"
        )
        yield failed(_CHECK, message, fix)
    if ours and not kept:
        listed = ", ".join(sorted(text(each, "metadata", "name") for each in ours))
        yield passed(_CHECK, f"taken away by NodePools {listed}")


def _pools_of(node_pool: Json) -> set[str]:
    """The pools of the stack that its nodes belong to: by their label, or by a requirement of that key."""
    template = mapping(node_pool, "spec", "template")
    label = text(template, "metadata", "labels", names.POOL_LABEL)
    required = {
        value
        for each in items(template, "spec", "requirements")
        if text(each, "key") == names.POOL_LABEL and text(each, "operator") == "In"
        for value in _values(each)
    }
    return required | ({label} if label else set())


def _values(requirement: Json) -> list[str]:
    found = requirement.get("values")
    return [str(each) for each in found] if isinstance(found, list) else []


def _fix(node_pool: Json) -> str:
    """What to change so that empty nodes go; empty where they do."""
    name = text(node_pool, "metadata", "name")
    disruption = mapping(node_pool, "spec", "disruption")
    if text(disruption, "consolidateAfter") == "Never":
        patch = '{"spec":{"disruption":{"consolidationPolicy":"WhenEmpty","consolidateAfter":"1m"}}}'
        command = f"kubectl patch nodepool {name} --type merge -p '{patch}'"
        return f"write `consolidateAfter: 1m` where it is made, or at once: {command}"
    if any(map(_stops_empty, items(disruption, "budgets"))):
        return (
            "where it is made, let its budget of 0 nodes have only the reasons Drifted and Underutilized, or "
            f"at once: kubectl edit nodepool {name}"
        )
    return ""


def _stops_empty(budget: Mapping[str, object]) -> bool:
    """Whether it forbids at all times that empty nodes go. With a schedule they go in between."""
    reasons = budget.get("reasons")
    concerns = not reasons or (isinstance(reasons, list) and _FOR_EMPTY in reasons)
    return concerns and text(budget, "nodes") in ("0", "0%") and "schedule" not in budget
