"""`muster demo`: three answers on data of the package, in the base install."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

from muster.cli.table import TABLE

ROOT = Path(__file__).resolve().parents[3]
_CODE = """
import sys
for name in ("pulumi", "aiohttp", "msgspec", "grpc", "google", "boto3", "rich", "lightkube"):
    sys.modules[name] = None
from muster.cli import main
sys.exit(main(["demo"]))
"""


@cache
def _demo() -> str:
    command = [sys.executable, "-c", _CODE]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout


def test_the_base_install_shows_a_report_a_plan_and_a_reason() -> None:
    text = _demo()
    assert "**`team-b` -2 L4; `team-a` +2 L4**" in text
    assert "team-a/job-train-1f2e3: waits for quota" in text
    assert "insufficient unused quota for nvidia.com/gpu in flavor l4, 2 more needed" in text
    _, _, end = text.partition("Next:\n")
    commands = [line.split()[1] for line in end.strip().splitlines()]
    assert len(commands) == 3
    assert set(commands) <= TABLE.keys()


def test_the_recorded_plan_is_that_of_the_tutorial() -> None:
    """The tutorial's output is compared with what Kueue's scheduler decides: tests/integration/replay."""
    page = (ROOT / "docs" / "first-replay.md").read_text()
    _, _, rest = page.partition("muster plan prod")
    lines = rest.partition("```text\n")[2].partition("```")[0].splitlines()
    text = _demo()
    assert len(lines) > 5
    assert [line for line in lines if line not in text] == []
