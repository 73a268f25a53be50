"""The versions that a cluster runs, against those that the stack installs."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from muster.artifacts.upstream import versions_of
from muster.cloud.doctor.findings import Finding, State, failed, passed
from muster.live.cluster.api import Api
from muster.live.fields import items, text
from muster.model.programs import PLACEMENTS, Program, running_version
from muster.model.stack import Stack
from muster.model.transitions import Verdict, judge

_CHECK: Final = "versions"
_DEPLOYMENTS: Final = "/apis/apps/v1/deployments"
_PAGE: Final = "docs/reference/versions.md"


def check_versions(stack: Stack, api: Api) -> Iterator[Finding]:
    """One finding for each step of the next `up` that is not safe, and one if all are."""
    wanted = versions_of(stack)
    steps = [
        (name, running, after)
        for name, after in wanted.items()
        if (running := _running(name, api)) is not None
    ]
    found = [step for each in steps if (step := judge(each[0], each[1], each[2])) is not None]
    for step in found:
        if step.verdict is Verdict.REFUSED:
            yield failed(_CHECK, str(step), f"name a version that can be reached ({_PAGE})")
        elif step.verdict is Verdict.ORDERED:
            yield Finding(_CHECK, State.UNKNOWN, str(step), f"take the steps in this order ({_PAGE})")
    if steps and all(step.verdict is Verdict.SAFE for step in found):
        yield passed(_CHECK, ", ".join(f"{name} {running}" for name, running, _ in steps))


def _running(component: str, api: Api) -> str | None:
    """The version in the cluster; None where there is none, or where nothing names it."""
    if component == "kubernetes":
        return text(api.get("/version"), "gitVersion") or None
    selector = quote(PLACEMENTS[Program(component)].selector)
    found = items(api.get(f"{_DEPLOYMENTS}?labelSelector={selector}"), "items")
    versions = [version for each in found if (version := running_version(each)) is not None]
    return str(versions[0]) if versions else None
