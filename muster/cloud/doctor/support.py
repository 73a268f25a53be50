"""Whether the cloud still supports the cluster's Kubernetes version, and whether it has raised it itself."""

import json
import subprocess
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from muster.artifacts.resolved import versions_of
from muster.cloud.clients import AmazonError, Google, from_amazon
from muster.cloud.doctor.findings import Finding, State, failed, passed
from muster.cloud.price_lists import refreshed
from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import Client
from muster.live.fields import items, text
from muster.model.clusters import EksCluster
from muster.model.prices import PriceTable
from muster.model.programs import PLACEMENTS, Program, Version, running_version
from muster.model.stack import Stack
from muster.model.transitions import Verdict, judge
from muster.model.versions import Outlook, Phase
from muster.validation.versions import cluster_outlook

# How the last updates of a stack went: how long, with what result, how many resources.

_SECONDS: Final = 60
_TAKEN: Final = ("kind", "result", "startTime", "endTime", "resourceChanges")
"""Not the message and the environment of an update: they hold names."""


def updates(stack: str, *, project: Path) -> list[dict[str, Any]]:
    """The last ten updates, the newest first. `project`: the project's folder, or one below it.

    Raises MusterError where `pulumi` does not answer.
    """
    command = ["pulumi", "stack", "history", "--stack", stack, "--json", "--page-size", "10", "--page", "1"]
    try:
        done = subprocess.run(
            command, cwd=project, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        raise _no_history("`pulumi` is not on the PATH.") from None
    except subprocess.TimeoutExpired:
        raise _no_history(f"`pulumi stack history` gave no answer in {_SECONDS} s.") from None
    if done.returncode:
        raise _no_history(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed.")
    return [{key: each[key] for key in _TAKEN if key in each} for each in json.loads(done.stdout)]


def _no_history(message: str) -> MusterError:
    return MusterError(f"the stack's history was not read: {message}", exit_code=ExitCode.OUTSIDE)


# The versions that a cluster runs, against those that the stack installs.

_PROGRAMS_CHECK: Final = "versions"
_DEPLOYMENTS: Final = "/apis/apps/v1/deployments"
_PAGE: Final = 'the page "Versions" of the documentation'


def check_versions(stack: Stack, api: Client) -> Iterator[Finding]:
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
            yield failed(_PROGRAMS_CHECK, str(step), f"name a version that can be reached ({_PAGE})")
        elif step.verdict is Verdict.ORDERED:
            yield Finding(
                _PROGRAMS_CHECK, State.UNKNOWN, str(step), f"take the steps in this order ({_PAGE})"
            )
    if steps and all(step.verdict is Verdict.SAFE for step in found):
        yield passed(_PROGRAMS_CHECK, ", ".join(f"{name} {running}" for name, running, _ in steps))


def _running(component: str, api: Client) -> str | None:
    """The version in the cluster; None where there is none, or where nothing names it."""
    if component == "kubernetes":
        return text(api.get("/version"), "gitVersion") or None
    selector = quote(PLACEMENTS[Program(component)].selector)
    found = items(api.get(f"{_DEPLOYMENTS}?labelSelector={selector}"), "items")
    versions = [version for each in found if (version := running_version(each)) is not None]
    return str(versions[0]) if versions else None


# The prices of a stack's machines, from the list of its cloud.

_OWN_PRICES = "write the price into the file by hand, with its source"


def check_prices(
    stack: Stack,
    known: PriceTable,
    save: Callable[[PriceTable], None],
    *,
    day: date,
    cloud: Google | None = None,
) -> Iterator[Finding]:
    """Save what the list has, and say for each pool what a node costs."""
    try:
        table = refreshed(known, stack, day=day, cloud=cloud)
    except MusterError as error:
        fix = error.fix or _OWN_PRICES
        yield Finding("prices", State.UNKNOWN, f"the list was not read: {error.message}", fix)
        return
    save(table)
    for pool in stack.pools:
        price = table.of(pool, stack.cluster)
        if price is None:
            message = f"{pool.name}: no list has a price for {pool.machine.name} bought as {pool.capacity}"
            yield Finding("prices", State.UNKNOWN, message, _OWN_PRICES)
            continue
        amount = f"{price.hourly.normalize():f} {price.currency}"
        yield passed("prices", f"{pool.name}: {amount} a node and hour, without disks, read on {price.read}")


_CHECK: Final = "support"


def check_support(stack: Stack, *, today: date) -> Iterator[Finding]:
    """By the calendar alone. For GKE, whose dates are estimates."""
    found = cluster_outlook(stack, today=today)
    if found is not None:
        yield _judge(found, exists=True)


def check_eks_version(stack: Stack, cluster: EksCluster, eks: Any, *, today: date) -> Iterator[Finding]:
    """By the calendar and by what the cluster runs. A new cluster of an unsupported version fails."""
    try:
        running = from_amazon(lambda: eks.describe_cluster(name=cluster.name))["cluster"]["version"]
    except AmazonError as error:
        if error.code != "ResourceNotFoundException":
            raise
        running = ""
    if running and Version.of(running) > Version.of(cluster.version):
        message = (
            f"the cluster runs Kubernetes {running}, and the stack names {cluster.version}: AWS raised it"
        )
        fix = f'write `version: "{running}"`; `pulumi up` does not lower it, and EKS would refuse that'
        yield failed(_CHECK, message, fix)
    found = cluster_outlook(stack, today=today)
    if found is not None:
        yield _judge(found, exists=bool(running))


def _judge(found: Outlook, *, exists: bool) -> Finding:
    if found.phase is Phase.SUPPORTED:
        return passed(_CHECK, f"Kubernetes {found.support.minor} is supported until {found.end}")
    if found.refuses_new and not exists:
        return failed(_CHECK, found.message, found.fix)
    return Finding(_CHECK, State.UNKNOWN, found.message, found.fix)
