"""What it costs to install Muster: megabytes, packages and seconds, without an extra and with each.

    python -m bench.install --runs 3 [--extras gke eks]

Builds the wheel of this checkout. Each run is an empty environment; the first, untimed one fills the cache of
pip. Time is that of `pip install` alone; size is what it adds to an empty environment with pip, bytecode
included.
"""

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.wheel import build_wheel, install, make_environment
from muster.paths import REQUIREMENTS

EXTRAS: Final = ("", "program", "local", "gke", "eks", "controller", "all")
_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    """One installation; `packages` include Muster."""

    megabytes: float
    packages: int
    seconds: float
    cpu: float
    """Seconds of processor time: what the machine did besides counts for less."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.install", description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=3, help="timed installations of each (default: %(default)s)"
    )
    parser.add_argument("--extras", nargs="*", default=EXTRAS, choices=EXTRAS, metavar="EXTRA")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        print(f"{wheel.name}: {wheel.stat().st_size / _MEGABYTE:.1f} MB")
        print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.0f} before the first run\n")
        print("| extra | MB | packages | seconds | seconds of CPU | runs |")
        print("|---|---:|---:|---:|---:|---:|")
        for extra in options.extras:
            costs = [_measure(Path(folder), wheel, extra) for _ in range(options.runs + 1)][1:]
            print(f"| {f'`{extra}`' if extra else 'none'} | {_row(costs)} |", flush=True)


def _measure(folder: Path, wheel: Path, extra: str) -> Cost:
    with tempfile.TemporaryDirectory(dir=folder) as environment:
        python = make_environment(Path(environment))
        before, installed = _bytes(Path(environment)), _packages(python)
        begun, used = time.monotonic(), _processor()
        requirement = f"{wheel}[{extra}]" if extra else str(wheel)
        install(python, requirement, constraints=REQUIREMENTS / "constraints.txt")
        seconds, cpu = time.monotonic() - begun, _processor() - used
        size = (_bytes(Path(environment)) - before) / _MEGABYTE
        return Cost(size, _packages(python) - installed, seconds, cpu)


def _processor() -> float:
    """Processor time of the child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))


def _packages(python: Path) -> int:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "list", "--format=freeze"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return len(listed.split())


def _row(costs: list[Cost]) -> str:
    spreads = (_spread([cost.seconds for cost in costs]), _spread([cost.cpu for cost in costs]))
    return f"{costs[0].megabytes:.0f} | {costs[0].packages} | {' | '.join(spreads)} | {len(costs)}"


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    main()
