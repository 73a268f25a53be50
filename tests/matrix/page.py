"""Writes the support table: `python -m tests.matrix.page docs/reference/support.md`.

A test holds that the page agrees with the recorded results.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from muster.model.versions import FIRST_UNKNOWN, MINIMUM_VERSIONS
from tests.matrix.results import Result, load

SUITES: Final = ("tenancy", "gangs", "integration")
_HEAD: Final = """\
# Which versions were tested

<!-- Written by `python -m tests.matrix.page docs/reference/support.md` from `tests/matrix/results.json`,
which `make matrix` writes; do not edit it. -->

`make matrix` builds other minor versions of Kubernetes from their modules (`MUSTER_KUBERNETES=1.36 muster
local build --only kube-apiserver`) and runs the suites against their API server: on the version of the local
cluster all of each, on the others what `make test` runs. Rendered only means that nothing was run on this
version. Refused means that `muster validate` does not accept it. No version was tested on GKE or EKS.

- tenancy: what a team's members may do, by the policies on a real API server
- gangs: the controller with the real Kueue
- integration: the other integration tests
"""


def page() -> str:
    """The whole page."""
    results = load()
    return "\n".join([_HEAD, *_kubernetes(results), *_kueue(results), *_failures(results), ""])


def _kubernetes(results: list[Result]) -> Iterator[str]:
    first, last = MINIMUM_VERSIONS["kubernetes"].version.minor, FIRST_UNKNOWN["kubernetes"].minor
    yield f"| Kubernetes | Kueue | {' | '.join(SUITES)} |"
    yield f"|---|---|{'---|' * len(SUITES)}"
    yield f"| before 1.{first} | | refused | refused | refused |"
    for minor in range(first, last):
        found = [each for each in results if each.kubernetes.startswith(f"1.{minor}.")]
        if not found:
            yield f"| 1.{minor} | | rendered only | rendered only | rendered only |"
            continue
        for kubernetes, kueue in sorted({(each.kubernetes, each.kueue) for each in found}):
            cells = [_cell(found, (kubernetes, kueue, suite)) for suite in SUITES]
            yield f"| {kubernetes} | {kueue} | {' | '.join(cells)} |"
    yield f"| 1.{last} and newer | | not compared | not compared | not compared |"


def _cell(results: list[Result], key: tuple[str, str, str]) -> str:
    found = next((each for each in results if each.key == key), None)
    if found is None:
        return "not recorded"
    failed = f", **{len(found.failed)} failed**" if found.failed else ""
    skipped = f", {found.skipped} skipped" if found.skipped else ""
    return f"tested: {found.passed} passed{failed}{skipped} ({found.day})"


def _kueue(results: list[Result]) -> Iterator[str]:
    tested = ", ".join(sorted({each.kueue for each in results}))
    minimum, unknown = MINIMUM_VERSIONS["kueue"].version, FIRST_UNKNOWN["kueue"]
    yield ""
    yield (
        f"Kueue can be installed from {minimum} and before {unknown}; tested: {tested or 'none'}. The local "
        "cluster runs Ray 2.54.1; its stories gang and priority also ran with Ray 2.60.0 (`MUSTER_RAY=2.60 "
        "make up`, 2026-11-28)."
    )


def _failures(results: list[Result]) -> Iterator[str]:
    failing = [each for each in results if each.failed]
    if not failing:
        return
    yield "\n## What fails\n"
    for result in failing:
        for test in result.failed:
            yield f"- Kubernetes {result.kubernetes}, {result.suite}: `{test.rpartition('.')[2]}`"
        if result.note:
            yield f"\n  {result.note}\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
