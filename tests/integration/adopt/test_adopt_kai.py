"""A cluster that runs KAI becomes a stack, and `pulumi up` takes its Queues over as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from muster.adopt.adoption import adopt, format_report
from muster.adopt.cluster import KAI_KINDS, fetch_cluster
from muster.adopt.kueue import completed
from muster.cli import main
from muster.config.document import parse_text
from muster.config.stack import examine
from muster.kubernetes.client import connect
from muster.model.kai import OWN_CLASSES
from muster.provider.manifests import same_meaning
from muster.render import queues
from muster.render.manifest import MANAGED_BY_LABEL
from tests.envtest import path_of
from tests.integration.adopt.world import adopter, apply
from tests.kai.definitions import data, ours
from tests.unit.adopt.kai_clusters import DEEP, GUIDE, PROGRAM, queue, shard

if TYPE_CHECKING:
    from tests.integration.conftest import ApiServer

Object = dict[str, Any]

_CLUSTER: Final = {"name": "bare", "context": "bare"}
_SPACE: Final = "/api/v1/namespaces/kai-scheduler"
_PROGRAM: Final = "/apis/apps/v1/namespaces/kai-scheduler/deployments"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_ADOPTER: Final = "/api/v1/namespaces/default/serviceaccounts/adopter"
_SAMPLES: Final = ("quickstart/default-queues.yaml", "priority/example/limited-queue.yaml")
_NAMESPACE: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kai-scheduler"}}


@pytest.fixture
def cluster(api_server: ApiServer) -> Iterator[ApiServer]:
    """The server with KAI's definitions and its program, and nothing of other tests."""
    api_server.define(list(ours().values()))
    _clear(api_server)
    api_server.apply(_NAMESPACE, _SPACE)
    api_server.call("POST", _PROGRAM, PROGRAM)
    yield api_server
    api_server.call("DELETE", f"{_PROGRAM}/kai-operator")
    _clear(api_server)


def _clear(server: ApiServer) -> None:
    for kind in ("Queue", "SchedulingShard", "Topology"):
        server.call("DELETE", KAI_KINDS[kind].path)
    classes = server.call("GET", KAI_KINDS["PriorityClass"].path)["items"]
    for name in {each["metadata"]["name"] for each in classes} & set(OWN_CLASSES):
        server.call("DELETE", f"{KAI_KINDS['PriorityClass'].path}/{name}")


def _created(server: ApiServer, objects: list[Object]) -> dict[str, Object]:
    """As kubectl does: the fields are kubectl's from then on. Each object by its path."""
    for each in objects:
        server.call("POST", f"{path_of(each).rpartition('/')[0]}?fieldManager=kubectl-create", each)
    return _live(server, objects)


def _live(server: ApiServer, objects: list[Object]) -> dict[str, Object]:
    return {path_of(each): server.call("GET", path_of(each)) for each in objects}


def _samples() -> list[Path]:
    folder = data("samples")
    return [] if folder is None else [folder / "kai" / each for each in _SAMPLES]


def _is_taken_over(server: ApiServer, objects: list[Object]) -> None:
    """Every object is the one that it was, with the same meaning."""
    before = _created(server, objects)
    adopted = adopt(fetch_cluster(connect(server.kubeconfig())), _CLUSTER)
    assert adopted.mistakes == ()
    assert adopted.is_exact, format_report(adopted)
    stack, _ = examine(parse_text(adopted.text, source="Pulumi.adopted.yaml"))
    assert stack is not None
    assert apply(server, queues.objects(stack)).failures == ()
    after = _live(server, objects)
    for path, one in before.items():
        two = after[path]
        assert two["metadata"]["uid"] == one["metadata"]["uid"], path
        assert two["metadata"]["labels"][MANAGED_BY_LABEL] == "muster", path
        assert two.get("value") == one.get("value"), path
        assert one.get("description", "") in two.get("description", ""), path
        if "spec" in one:
            was, now = (completed(one["kind"], each["spec"]) for each in (one, two))
            # Muster names what has no name for people.
            now = {**now, "displayName": was.get("displayName")}
            assert same_meaning(was, now), path


@pytest.mark.parametrize("tree", [GUIDE, DEEP], ids=["guide", "deep"])
def test_queues_become_a_stack_that_changes_nothing(cluster: ApiServer, tree: list[Object]) -> None:
    _is_taken_over(cluster, tree)


@pytest.mark.parametrize("path", _samples(), ids=lambda path: path.stem)
def test_queues_of_kais_samples_become_a_stack_that_changes_nothing(cluster: ApiServer, path: Path) -> None:
    found = [each for each in yaml.safe_load_all(path.read_text()) if each and each["kind"] == "Queue"]
    _is_taken_over(cluster, [shard(), *found])


def test_kais_queues_are_read_with_the_rights_that_the_page_lists(cluster: ApiServer, tmp_path: Path) -> None:
    _created(cluster, GUIDE)
    kubeconfig = str(adopter(cluster))
    assert main(["adopt", "--kubeconfig", kubeconfig, "--out", str(tmp_path / "Pulumi.a.yaml")]) == 0
    for path in (
        *(f"{_RBAC}/{each}/muster-adopt" for each in ("clusterrolebindings", "clusterroles")),
        _ADOPTER,
    ):
        cluster.call("DELETE", path)


def test_what_somebody_changed_in_between_is_a_conflict_and_stays(cluster: ApiServer) -> None:
    _created(cluster, GUIDE)
    adopted = adopt(fetch_cluster(connect(cluster.kubeconfig())), _CLUSTER)
    stack, _ = examine(parse_text(adopted.text, source="Pulumi.adopted.yaml"))
    assert stack is not None
    path = f"{KAI_KINDS['Queue'].path}/team-a"
    changed = {"spec": {"resources": {"gpu": {"quota": 3}}}}
    patch = "application/merge-patch+json"
    cluster.call("PATCH", f"{path}?fieldManager=kubectl-edit", changed, content_type=patch)
    (failure,) = apply(cluster, queues.objects(stack)).failures
    assert "Queue team-a" in failure
    assert "kubectl-edit" in failure
    assert cluster.call("GET", path)["spec"]["resources"]["gpu"]["quota"] == 3


def test_the_command_writes_a_file_that_validates_and_has_durations_as_they_are(
    cluster: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _created(cluster, [*GUIDE, queue("slow", "department-1", spec={"reclaimMinRuntime": "1.5h"})])
    file = tmp_path / "Pulumi.prod.yaml"
    command = ["adopt", "--kubeconfig", str(cluster.kubeconfig()), "--out", str(file), "--json"]
    assert main(command) == 0
    said = capsys.readouterr().out
    found = json.loads(said[said.index("{") :])
    assert not [each for each in found["notExpressed"] if each["matters"]]
    assert "reclaimMinRuntime: 1.5h" in file.read_text()
    assert main(["validate", str(file)]) == 0
