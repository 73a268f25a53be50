"""How often the first `make up` of a new local cluster ends in a finished gang, and how long it takes.

    python -m bench.first_up                 # twenty rounds; what is not built yet is built in the first
    python -m bench.first_up --rounds 3 --logs logs
    python -m bench.first_up --cold --rounds 1

Each round boots a new local cluster under a name of its own, runs what `make up` runs, and removes the
cluster. With `--cold` it compiles every program first, in an empty cache and with empty caches of Go's. The
first team's first job is submitted as soon as `pulumi up` ends, so a round fails where `up` ends too early.
Prints the machine and its load, one line a round, then "k of N" and the times; exit code 0 when every round
passed.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.gangs import machine
from muster.paths import IMPORT_ROOT

_DEMO = (sys.executable, "-m", "muster", "local", "demo", "--name")
_DOWN = (sys.executable, "-m", "muster", "local", "down", "--name")
# What the demo prints at its end: "local cluster ready in 10 s, pulumi up in 25 s, gang story in 60 s".
_STEP = re.compile(r"([a-z ]+?)(?: ready)? in (\d+) s")
_TIMEOUT = 3600.0


@dataclass(frozen=True, slots=True)
class Round:
    """One new cluster. `steps` are seconds by step, empty for a round that failed."""

    code: int
    seconds: float
    output: str
    steps: Mapping[str, float] = field(default_factory=dict)


def rounds(number: int, *, cluster: str, is_cold: bool = False) -> Iterator[Round]:
    for _ in range(number):
        with _caches(is_cold=is_cold) as environment:
            _down(cluster, environment)
            try:
                yield _demo(cluster, environment)
            finally:
                _down(cluster, environment)


@contextmanager
def _caches(*, is_cold: bool) -> Iterator[Mapping[str, str]]:
    """The environment of a round, with caches that are empty and removed afterwards if it is cold."""
    if not is_cold:
        yield os.environ
        return
    with tempfile.TemporaryDirectory(prefix="first-up-", ignore_cleanup_errors=True) as folder:
        caches = {name: f"{folder}/{name}" for name in ("MUSTER_CACHE", "GOCACHE", "GOMODCACHE")}
        yield {**os.environ, **caches, "MUSTER_PROGRAMS": "build"}


def _demo(cluster: str, environment: Mapping[str, str]) -> Round:
    begun = time.monotonic()
    ended = subprocess.run(
        [*_DEMO, cluster],
        cwd=IMPORT_ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    seconds = time.monotonic() - begun
    steps = parse_steps(ended.stdout) if ended.returncode == 0 else {}
    return Round(ended.returncode, seconds, ended.stdout, steps)


def _down(cluster: str, environment: Mapping[str, str]) -> None:
    subprocess.run([*_DOWN, cluster], cwd=IMPORT_ROOT, env=environment, capture_output=True, check=False)


def parse_steps(output: str) -> dict[str, float]:
    """Step -> seconds, from the demo's last lines."""
    summary = next((line for line in output.splitlines() if "pulumi up in " in line), "")
    return {name.strip(" ,"): float(seconds) for name, seconds in _STEP.findall(summary)}


def table(found: Sequence[Round]) -> str:
    """`k of N`, and min, median and max of each step over the rounds that passed."""
    passed = [each for each in found if each.code == 0]
    lines = [f"{len(passed)} of {len(found)}"]
    if passed:
        lines += ["", "| step | min s | median s | max s |", "|---|---|---|---|"]
        names = dict.fromkeys(name for each in passed for name in each.steps)
        for name in names:
            lines.append(_row(name, [each.steps[name] for each in passed if name in each.steps]))
        lines.append(_row("all", [each.seconds for each in passed]))
    return "\n".join(lines)


def _row(name: str, seconds: Sequence[float]) -> str:
    return f"| {name} | {min(seconds):.0f} | {statistics.median(seconds):.0f} | {max(seconds):.0f} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.first_up", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="new clusters to boot (20)")
    parser.add_argument("--cluster", default="first-up", metavar="NAME", help="name of the local cluster")
    parser.add_argument("--cold", action="store_true", help="compile everything in each round")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="keep the output of each round here")
    options = parser.parse_args()
    found: list[Round] = []
    here = machine.here()
    print(f"{here}; load average {here.load:.1f}", flush=True)
    clusters = rounds(options.rounds, cluster=options.cluster, is_cold=options.cold)
    for number, each in enumerate(clusters, start=1):
        found.append(each)
        if options.logs is not None:
            options.logs.mkdir(parents=True, exist_ok=True)
            (options.logs / f"{number}.txt").write_text(each.output)
        steps = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in each.steps.items())
        print(
            f"{number}: exit {each.code} after {each.seconds:.0f} s{f' ({steps})' if steps else ''}",
            flush=True,
        )
        if each.code != 0:
            print("\n".join(each.output.splitlines()[-5:]), flush=True)
    print(f"\n{table(found)}")
    return 0 if all(each.code == 0 for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
