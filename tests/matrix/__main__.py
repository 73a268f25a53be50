"""Runs the suites, one after another. On other versions than the usual one, what `make test` runs of them."""

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from muster.local.builder import everything
from muster.local.builder.versions import KUBERNETES_VARIABLE, load
from muster.paths import VERSIONS_FILE
from tests import length
from tests.matrix.results import Result, record

ROOT: Final = Path(__file__).resolve().parents[2]
_TENANCY: Final = "tests/integration/tenancy"
_GANGS: Final = "tests/integration/kueue_api"
# Folders two at a time: what a folder shares, it starts once.
_BESIDE: Final = ("-n", "2", "--dist=loadscope")
SUITES: Final = {
    "tenancy": (_TENANCY,),
    "gangs": (_GANGS,),
    "integration": ("tests/integration", f"--ignore={_TENANCY}", f"--ignore={_GANGS}"),
}
# Of Kubernetes itself, what these suites start.
_PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
USUAL: Final = ""


def main() -> int:
    others = sorted(tomllib.loads(VERSIONS_FILE.read_text(encoding="utf-8"))["kubernetes"])
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--kubernetes", choices=["usual", *others], action="append")
    parser.add_argument("--suite", choices=sorted(SUITES), action="append")
    given = parser.parse_args()
    minors = [USUAL if each == "usual" else each for each in given.kubernetes or ["usual", *others]]
    results = [_run(minor, suite) for minor in minors for suite in given.suite or SUITES]
    return 1 if any(result.failed for result in results) else 0


def _run(minor: str, suite: str) -> Result:
    os.environ[KUBERNETES_VARIABLE] = minor
    everything.ensure_only(*_PROGRAMS)
    versions = load().programs
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", *_BESIDE, *SUITES[suite], f"--junitxml={report}"]
        short = {length.VARIABLE: length.SHORT} if minor else {}
        subprocess.run(command, cwd=ROOT, env={**os.environ, **short, "MUSTER_BUILT": "1"}, check=False)
        result = _read(
            report,
            suite=suite,
            kubernetes=versions["kube-apiserver"].version.removeprefix("v"),
            kueue=versions["kueue"].version.removeprefix("v"),
        )
    record(result)
    print(f"Kubernetes {result.kubernetes}, {suite}: {result.passed} passed, {len(result.failed)} failed")
    return result


def _read(report: Path, *, suite: str, kubernetes: str, kueue: str) -> Result:
    cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 - pytest wrote it just now
    failed = [each for each in cases if {"failure", "error"} & {child.tag for child in each}]
    skipped = [each for each in cases if each.find("skipped") is not None]
    return Result(
        suite=suite,
        kubernetes=kubernetes,
        kueue=kueue,
        passed=len(cases) - len(failed) - len(skipped),
        skipped=len(skipped),
        failed=tuple(f"{each.get('classname')}::{each.get('name')}" for each in failed),
        day=datetime.now(UTC).date().isoformat(),
    )


if __name__ == "__main__":
    sys.exit(main())
