"""Which program was measured: the commit of the working tree."""

import subprocess
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
# What a run itself writes, and what is only read, changes no program.
_PROGRAMS: Final = (".", ":!docs", ":!*.md")
CHANGED: Final = "+"
"""Behind the commit where files that git knows differ from it."""


def here(root: Path = _ROOT) -> str:
    """The short hash, as `1c6c7ce` or `1c6c7ce+`; empty where there is no git or no repository."""
    commit = _git(root, "rev-parse", "--short=7", "HEAD").strip()
    if not commit:
        return ""
    status = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *_PROGRAMS)
    return commit + (CHANGED if status.strip() else "")


def _git(root: Path, *arguments: str) -> str:
    try:
        argv = ["git", "-C", str(root), *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""
