"""The tutorial of a first preview, typed: each command runs, and each line that the page shows is printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "first-preview.md"
_BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_shows_what_its_commands_print(tmp_path: Path) -> None:
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    script = "\n".join(f"{text}echo '=== next'" for kind, text in blocks if kind == "sh")
    author = {
        f"GIT_{who}_{what}": "me@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    outside_ci = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "GITHUB_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env={**outside_ci, **author, "PATH": path, "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    shown = iter(ran.stdout.split("=== next\n"))
    for kind, text in blocks:
        if kind == "sh":
            printed = next(shown)
        else:
            missing = [line for line in text.splitlines() if line not in printed]
            assert missing == []
