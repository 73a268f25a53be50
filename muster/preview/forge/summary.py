"""Writes the report where it can be read without the right to comment, which a fork's job does not have.

GitHub shows what is appended to the file GITHUB_STEP_SUMMARY on the job's page, up to 1 MiB
(https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#adding-a-job-summary).
GitLab has no such page: the report goes into a file, to be kept as an artifact, and into the log.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ARTIFACT: Final = "muster-preview.md"


def write_summary(body: str, environment: Mapping[str, str]) -> str:
    """Write the report, and return where it is."""
    page = environment.get("GITHUB_STEP_SUMMARY", "")
    if page:
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(f"{body}\n")
        return "the job's summary"
    if environment.get("GITLAB_CI"):
        Path(ARTIFACT).write_text(body, encoding="utf-8")
        sys.stderr.write(body)
        return f"{ARTIFACT} and this log"
    sys.stderr.write(body)
    return "standard error"
