"""A process of the plane that has just died is killed once more, as soon as the next one runs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from examples.cluster import Cluster
from localplane.errors import PlaneError
from localplane.plane import Plane
from tests.e2e import plane
from tests.e2e.plane import Muster
from tests.e2e.recorder import Recorder


def test_two_moments_of_one_death_are_two_deaths(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, True])
    sent: list[int] = []

    def call(_: Plane, operation: str, **arguments: Any) -> None:
        assert (operation, arguments["unit"]) == ("signal", "kube-apiserver")
        if not next(answers):
            raise PlaneError("unit kube-apiserver", "does not run", fix="wait")
        sent.append(arguments["signal"])

    here = Plane("e2e", 0, Path(), Path())
    monkeypatch.setattr(plane, "existing", lambda _: [here])
    monkeypatch.setattr(plane.control, "call", call)

    _muster().signal("kube-apiserver", signal.SIGKILL)

    assert sent == [signal.SIGKILL]


def _muster() -> Muster:
    return Muster("e2e", {}, Cluster.__new__(Cluster), Recorder(""), frozenset())
