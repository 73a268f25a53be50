"""What the tests do to a local cluster, and ask of it, waits for what a true one does a moment later."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from muster.local.cluster import control
from muster.local.cluster.local_cluster import LocalCluster
from muster.local.demo.cluster import Cluster
from muster.local.errors import LocalClusterError
from tests.e2e import local_cluster
from tests.e2e.local_cluster import Muster
from tests.e2e.recorder import Recorder


def test_two_moments_of_one_death_are_two_deaths(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, True])
    sent: list[int] = []

    def call(_: LocalCluster, operation: str, **arguments: Any) -> None:
        assert (operation, arguments["unit"]) == ("signal", "kube-apiserver")
        if not next(answers):
            raise LocalClusterError("unit kube-apiserver", "does not run", fix="wait")
        sent.append(arguments["signal"])

    here = LocalCluster("e2e", 0, Path(), Path())
    monkeypatch.setattr(local_cluster, "existing", lambda _: [here])
    monkeypatch.setattr(control, "call", call)

    _muster().signal("kube-apiserver", signal.SIGKILL)

    assert sent == [signal.SIGKILL]


def test_what_goes_a_moment_late_is_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    late = {"namespace/default", "apiservice/v1.ray.io"}
    standing = iter([late, late - {"apiservice/v1.ray.io"}, {"namespace/default"}])
    monkeypatch.setattr(local_cluster, "_cluster_wide", lambda _: frozenset(next(standing)))

    assert _muster().left_behind(frozenset({"namespace/default"})) == frozenset()


def test_what_stays_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_cluster, "_MOMENT", 0.0)
    monkeypatch.setattr(local_cluster, "_cluster_wide", lambda _: frozenset({"namespace/team-a"}))

    assert _muster().left_behind(frozenset()) == {"namespace/team-a"}


def _muster() -> Muster:
    return Muster("e2e", {}, Cluster.__new__(Cluster), Recorder(""), frozenset())
