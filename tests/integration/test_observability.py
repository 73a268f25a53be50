"""What a stack renders for monitoring is taken by the kinds that it is written for.

Their definitions are others' and not in this checkout: MUSTER_MONITORING_CRDS names files or folders that
hold them, such as prometheus-operator's example/prometheus-operator-crd and the manifests/setup.yaml of
Google's prometheus-engine. Without it there is nothing to compare with.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.model.names import SYSTEM_NAMESPACE
from muster.model.observability import Scraping
from muster.render.observability import objects
from tests import built, envtest
from tests.envtest import ControlPlane
from tests.integration.kueue_api.objects import Refused, apply
from tests.unit.model.test_observability import SELECTOR, stack

_NAMED: Final = os.environ.get("MUSTER_MONITORING_CRDS", "")
_KINDS: Final = {
    Scraping.OPERATOR: ("podmonitors.monitoring.coreos.com", "prometheusrules.monitoring.coreos.com"),
    Scraping.GOOGLE: ("podmonitorings.monitoring.googleapis.com", "rules.monitoring.googleapis.com"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    if not _NAMED:
        pytest.skip("MUSTER_MONITORING_CRDS names no definitions to compare with")
    programs = built.programs(("etcd", "kube-apiserver"))
    with envtest.control_plane(tmp_path_factory.mktemp("monitoring"), programs) as plane:
        wanted = frozenset(chain.from_iterable(_KINDS.values()))
        found = {each["metadata"]["name"]: each for each in _definitions(wanted)}
        assert found.keys() == wanted, f"no definition of {sorted(wanted - found.keys())}"
        plane.define(list(found.values()))
        apply(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}})
        yield plane


def _definitions(names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Those of these names. (Of the others some are no YAML that the safe loader takes.)"""
    named = (Path(each) for each in _NAMED.split(os.pathsep))
    files = chain.from_iterable(sorted(each.glob("*.yaml")) if each.is_dir() else (each,) for each in named)
    documents = chain.from_iterable(each.read_text(encoding="utf-8").split("\n---\n") for each in files)
    for text in documents:
        if any(f"\n  name: {name}\n" in text for name in names):
            yield yaml.safe_load(text)


def _rendered(scraping: Scraping) -> list[dict[str, Any]]:
    wanted = stack(metrics=scraping.value, alerts=True, dashboard=True, labels={"release": "mine"})
    return list(chain.from_iterable(objects(wanted, selector=SELECTOR, port="health").values()))


@pytest.mark.parametrize("scraping", _KINDS)
def test_monitors_rules_and_dashboard_are_taken_as_they_are(server: ControlPlane, scraping: Scraping) -> None:
    """Strictly: a field that a kind does not know is an error. And nothing of ours is changed or dropped."""
    for item in _rendered(scraping):
        stored = apply(server, item)
        assert _holds(stored, item), f"{item} became {stored}"


def _holds(stored: Any, said: Any) -> bool:
    """All that was said stands; a kind may have added its defaults."""
    match said:
        case dict():
            return all(key in stored and _holds(stored[key], each) for key, each in said.items())
        case list():
            return len(stored) == len(said) and all(map(_holds, stored, said))
    return bool(stored == said)


@pytest.mark.parametrize("scraping", _KINDS)
def test_what_they_do_not_know_would_be_refused(server: ControlPlane, scraping: Scraping) -> None:
    for item in (each for each in _rendered(scraping) if "spec" in each):
        with pytest.raises(Refused, match="unknown"):
            apply(server, {**item, "spec": {**item["spec"], "unknown": 1}})
