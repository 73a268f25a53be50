"""The ComputeClasses of a stack, judged by a real API server by a definition that follows Google's page."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster import config
from muster.model.clusters import GkeCluster
from muster.render.compute_classes import compute_classes
from tests.integration.conftest import ApiServer

Object = dict[str, Any]

_STACK: Final = Path(__file__).parents[2] / "clouds" / "stacks" / "gke-compute-classes.yaml"
_KIND: Final = Path(__file__).parents[2] / "clouds" / "cluster" / "computeclasses.yaml"
_AT: Final = "/apis/cloud.google.com/v1/computeclasses"


def _written() -> dict[str, Object]:
    stack = config.load(_STACK)
    assert isinstance(stack.cluster, GkeCluster)
    keyed = replace(stack.cluster, kms_key="projects/p/locations/us-central1/keyRings/r/cryptoKeys/k")
    found = compute_classes(stack.pools, keyed, service_account="nodes@p.iam.gserviceaccount.com")
    return {each["metadata"]["name"]: each for each in found}


WRITTEN: Final = _written()


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> Iterator[ApiServer]:
    kind = yaml.safe_load(_KIND.read_text())
    with api_server.serving([kind]):
        yield api_server


@pytest.mark.parametrize("name", WRITTEN)
def test_every_class_is_taken(server: ApiServer, name: str) -> None:
    assert server.refusal(_AT, WRITTEN[name]) == ""


def test_the_stack_has_every_way_to_buy() -> None:
    rules = [each["spec"]["priorities"][0] for each in WRITTEN.values()]
    assert {rule["spot"] for rule in rules} == {True, False}
    assert {rule["reservations"]["affinity"] for rule in rules} == {"None", "Specific"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"machine": "g2-standard-8"}, 'unknown field "spec.priorities[0].machine"'),
        ({"spot": "yes"}, "spec.priorities[0].spot"),
        ({"gpu": {"type": "nvidia-l4", "count": 0}}, "should be greater than or equal to 1"),
        ({"reservations": {"affinity": "Any"}}, 'supported values: "None", "Specific", "AnyBestEffort"'),
        (
            {"reservations": {"affinity": "Specific", "specific": [{"name": "r"}]}},
            "location config with specific reservations enabled",
        ),
    ],
)
def test_a_broken_rule_is_refused(server: ApiServer, change: Object, words: str) -> None:
    """So that what is taken above was judged."""
    body = WRITTEN["l4"]
    rule = body["spec"]["priorities"][0]
    broken = {**body, "spec": {**body["spec"], "priorities": [{**rule, **change}]}}
    assert words in server.refusal(_AT, broken)
