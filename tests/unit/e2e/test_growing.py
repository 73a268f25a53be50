"""The elastic program asks Ray for each growth in one question, and keeps what it has meanwhile."""

from __future__ import annotations

import io
import runpy
import sys
from types import ModuleType
from typing import Any

import pytest

from tests.e2e.local_cluster import ROOT

_PROGRAM = ROOT / "tests" / "e2e" / "programs" / "growing.py"


class _Group:
    def __init__(self, bundles: list[dict[str, int]]) -> None:
        self.bundles = bundles

    def wait(self, _: int) -> bool:
        return True


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        pytest.param("2", ["+2"], id="two-at-once"),
        pytest.param("1 2", ["+1", "+1"], id="what-runs-is-kept"),
        pytest.param("2 1 2", ["+2", "-2", "+1", "+1"], id="less-is-asked-anew"),
        pytest.param("2 0", ["+2", "-2"], id="nothing"),
    ],
)
def test_each_growth_is_one_question(told: str, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert _asked(told.split(), monkeypatch) == asked


def _asked(told: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups that it makes (+) and gives back (-), each with its GPUs."""
    seen: list[str] = []

    def made(bundles: list[dict[str, int]]) -> _Group:
        assert all(bundle == {"GPU": 1} for bundle in bundles)
        seen.append(f"+{len(bundles)}")
        return _Group(bundles)

    def removed(group: _Group) -> None:
        seen.append(f"-{len(group.bundles)}")

    util: Any = ModuleType("ray.util.placement_group")
    util.PlacementGroup, util.placement_group, util.remove_placement_group = _Group, made, removed
    ray: Any = ModuleType("ray")
    ray.init = lambda **_: None
    for name, module in (("ray", ray), ("ray.util", ModuleType("ray.util")), (util.__name__, util)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in told)))
    runpy.run_path(str(_PROGRAM))
    return seen
