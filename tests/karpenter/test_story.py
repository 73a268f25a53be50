"""The story of `muster local demo --autoscaler karpenter`: real Karpenter, real kubelets, real Ray."""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.e2e.local_cluster import exports, run

Event = dict[str, Any]

NAME: Final = "karpenter"
STACK: Final = "local-karpenter"
_LOCAL: Final = (sys.executable, "-m", "muster", "local")


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """Of a local cluster on which Karpenter buys the nodes, with its stack."""
    here = dict(os.environ)
    local("up", "--name", NAME, "--autoscaler", "karpenter", environment=here, timeout=2400)
    try:
        surroundings = {**here, **exports(local("env", "--name", NAME, environment=here))}
        pulumi = ("--stack", STACK, "--non-interactive")
        run(["pulumi", "stack", "init", STACK, "--non-interactive"], surroundings, timeout=60)
        run(["pulumi", "up", *pulumi, "--yes", "--skip-preview"], surroundings, timeout=600)
        yield surroundings
    finally:
        local("down", "--name", NAME, environment=here, timeout=120)


def test_with_stock_for_half_a_gang_runs_whole_or_not_at_all(environment: dict[str, str]) -> None:
    told = local("story", "karpenter", "--json", "--timeout=1500", environment=environment, timeout=1600)
    events = [json.loads(line) for line in told.splitlines()]

    first, second = (index for index, event in enumerate(events) if "RayJob created" in text(event))
    stocked = next(i for i, event in enumerate(events) if text(event) == "$ muster local capacity h100 4")
    plain, torn, whole = events[first:second], events[second:stocked], events[stocked:]
    assert len(nodes_ready(plain)) == 2
    assert len(pods_started(plain, on="plain")) == 2, "the plain way buys half of a gang and starts it"
    assert len(nodes_ready(torn)) == 2
    assert pods_started(torn, on="") == [], "no pod of the gang starts while half of it is missing"
    assert any("holds no quota" in text(event) and "2 of 4 h100 nodes" in text(event) for event in torn)
    assert len(pods_started(whole, on="h100")) == 4
    assert events[-1]["result"] == "succeeded"


def test_the_commands_of_a_local_cluster_know_karpenter(environment: dict[str, str]) -> None:
    status = json.loads(local("status", "--name", NAME, "--json", environment=environment))
    assert status["state"] == "healthy"
    assert "karpenter" in status["units"]
    assert "karpenter" in local("logs", "--name", NAME, environment=environment).split()
    assert local("logs", "karpenter", "--name", NAME, environment=environment)
    assert "stock-out" in local("fault", "h100", "stock-out", "--name", NAME, environment=environment)


def local(*arguments: str, environment: dict[str, str], timeout: float = 60) -> str:
    """`muster local`."""
    return run([*_LOCAL, *arguments], environment, timeout=timeout)


def text(event: Event) -> str:
    return str(event.get("text", ""))


def nodes_ready(events: list[Event]) -> set[str]:
    said = (text(event) for event in events if event.get("who") == "nodes")
    return {each for each in said if each.endswith("is ready")}


def pods_started(events: list[Event], *, on: str) -> list[str]:
    """Pods of a gang that got a node whose name begins so."""
    return [text(event) for event in events if f" starts on node {on}" in text(event)]
