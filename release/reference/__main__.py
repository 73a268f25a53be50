"""Writes the generated pages: `python -m release.reference docs/reference`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from release.reference import (
    admission,
    command_line,
    components,
    machines,
    metrics,
    policy_pack,
    stack_file,
    versions,
)

# The generated pages by file name. A test compares each with the file in docs/reference.

PAGES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "admission.md": admission.page,
        "components.md": components.page,
        "crds.md": stack_file.crds_page,
        "../known-issues.md": versions.known_issues_page,
        "machines.md": machines.page,
        "metrics.md": metrics.page,
        "outputs.md": components.outputs_page,
        "policies.md": policy_pack.page,
        "versions.md": versions.page,
        **command_line.PAGES,
        **stack_file.PAGES,
    }
)


def main(folder: Path) -> None:
    for name, page in PAGES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
