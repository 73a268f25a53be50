"""What a call to the API is tried again for, and what it is not."""

from pathlib import Path

import pytest

from muster.kubernetes.errors import ApiError
from muster.local.demo import cluster
from tests.unit.demo.http_cluster import cluster_at
from tests.unit.preview.http_world import Asked, Reply, serving

_POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "team-a"}}


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PAUSE", 0.01)


def _forbidden(why: str) -> Reply:
    body = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": why}
    return Reply(403, body, {"Content-Type": "application/json"})


def test_who_comes_before_a_new_quota_has_been_counted_waits(tmp_path: Path) -> None:
    uncounted = _forbidden('pods "one" is forbidden: status unknown for quota: objects, resources: pods')
    answers = [uncounted, uncounted, Reply(200, _POD, {"Content-Type": "application/json"})]

    def script(_: Asked) -> Reply:
        return answers.pop(0)

    said: list[str] = []
    with serving(script) as server:
        assert cluster_at(server.url, tmp_path, say=said.append).apply(_POD)["metadata"]["name"] == "one"
    assert len(server.asked) == 3
    (line,) = said
    assert line.startswith("waiting for kube-controller-manager to count the quota: ")
    assert "status unknown for quota: objects" in line


def test_a_quota_that_is_never_counted_is_given_up_with_a_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_COUNT_PATIENCE", 0.05)
    uncounted = _forbidden('pods "one" is forbidden: status unknown for quota: objects, resources: pods')
    given_up = pytest.raises(cluster.NotCountedError, match="Fix: see that kube-controller-manager runs")
    with serving(lambda _: uncounted) as server, given_up:
        cluster_at(server.url, tmp_path).apply(_POD)
    assert len(server.asked) > 1


def test_who_is_forbidden_for_good_hears_it_at_once(tmp_path: Path) -> None:
    refusal = pytest.raises(ApiError, match="exceeded quota")
    with serving(lambda _: _forbidden("exceeded quota: objects")) as server, refusal:
        cluster_at(server.url, tmp_path).apply(_POD)
    assert len(server.asked) == 1
