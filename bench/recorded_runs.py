"""What a run of tests or of virtual time has shown, as a file: with its command, commit, machine and day.

bench/results/reliability/RELEASE has one file for each kind of run. The reliability report is made of them.
"""

import shlex
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.gangs import build, machine
from muster.whole_file import write_whole

FOLDER: Final = Path(__file__).with_name("results") / "reliability"
_BUILD: Final = build.here()
"""Of what this process runs, whatever is committed meanwhile."""


@dataclass(frozen=True, slots=True)
class Run:
    """`build`: the commit, with a `+` where files differ from it. `results`: of the kind of run."""

    command: str
    build: str
    machine: machine.Machine
    day: str
    results: Any


def record(path: Path, results: Any) -> None:
    """Write the results of this process: a dict, a list or a dataclass."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = spec.name.removesuffix(".__main__") if spec else sys.argv[0]
    options = [each for each in sys.argv[1:] if each not in ("--record", str(path))]
    run = Run(
        command=shlex.join(["python", "-m", program, *options]),
        build=_BUILD,
        machine=machine.here(),
        day=datetime.now(UTC).date().isoformat(),
        results=results,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.format(msgspec.json.encode(asdict(run)), indent=1) + b"\n")


def load(path: Path) -> Run:
    """Raises msgspec.ValidationError for a file that `record` has not written."""
    return msgspec.json.decode(path.read_bytes(), type=Run)
