"""Mistakes planted in the decision code, which the search has to notice: `python -m tests.search --planted`.

planted.toml lists them: the file, what it says, and what a mistake would make of it. Each is searched in a
process of its own, which imports that file with the mistake; nothing on the disk changes. tests/mutants.py
draws mutants at random and asks all tests; these are the rules of a gang, one by one.
"""

import importlib.machinery
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from bench.recorded_runs import record
from tests.budget import ROOT
from tests.mutants import Mutant

_TOML: Final = Path(__file__).with_name("planted.toml")
_ALONE: Final = 40.0
"""Seconds of CPU time after which a search of one mistake ends."""
_FEWEST_NOTICED: Final = 28


@dataclass(frozen=True, slots=True)
class Planted:
    """`breaks`: the rule, in words. `starts`: where it can be seen."""

    breaks: str
    mutant: Mutant
    starts: tuple[str, ...]


def planted() -> Mapping[str, Planted]:
    """By name. Raises ValueError where a file does not say what is to be replaced, once."""
    listed = tomllib.loads(_TOML.read_text(encoding="utf-8"))
    return {name: _read(name, **row) for name, row in listed.items()}


def _read(name: str, breaks: str, file: str, old: str, new: str, starts: Sequence[str]) -> Planted:
    path = f"muster/controller/{file}"
    source = (ROOT / path).read_bytes()
    if source.count(old.encode()) != 1:
        raise ValueError(
            f"{_TOML.name}: {name}: {path} has `old` {source.count(old.encode())} times, not once"
        )
    start = source.index(old.encode())
    line = source[:start].count(b"\n") + 1
    mutant = Mutant(path, line, start, start + len(old.encode()), old, new, 0)
    return Planted(breaks, mutant, tuple(starts))


class _Finder(MetaPathFinder):
    """Loads one module with a mistake in it."""

    def __init__(self, mutant: Mutant) -> None:
        self._name, self._mutant = mutant.path.removesuffix(".py").replace("/", "."), mutant

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        file = str(ROOT / self._mutant.path)
        return importlib.machinery.ModuleSpec(name, _Loader(name, file, self._mutant), origin=file)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, file: str, mutant: Mutant) -> None:
        super().__init__(name, file)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType | None:
        source = self._mutant.apply((ROOT / self._mutant.path).read_bytes())
        return compile(source, self.path, "exec")


def install(name: str) -> None:
    """From now on the file of this mistake is imported with it. Nothing of it may be imported already."""
    sys.meta_path.insert(0, _Finder(planted()[name].mutant))


def main(names: Sequence[str], *, seconds: float, processes: int, recorded: Path | None = None) -> int:
    """Print what becomes of these, or of all; 1 where too few are noticed. `recorded`: a file for the rule
    that notices each, "" where none does, null where there was no time. Raises KeyError for an unknown name.
    """
    end = time.monotonic() + seconds
    listed = planted()
    rows = {name: listed[name] for name in names or listed}
    noticed: dict[str, str | None] = {}
    with ThreadPoolExecutor(processes) as pool:
        for name, seen in pool.map(lambda name: (name, _judge(name, rows[name], end)), rows):
            noticed[name] = seen
            print(f"{name}: {'not searched' if seen is None else seen or 'SURVIVED'}", flush=True)
    dead, unknown = sum(map(bool, noticed.values())), sum(seen is None for seen in noticed.values())
    print(f"{dead} of {len(rows)} are noticed; not searched: {unknown}")
    if recorded:
        record(recorded, noticed)
    return 1 if dead < (len(rows) if names else _FEWEST_NOTICED) else 0


def _judge(name: str, row: Planted, end: float) -> str | None:
    """The rule that it breaks, "" where it breaks none; None where there was no time."""
    for start in row.starts:
        if time.monotonic() > end:
            return None
        command = (sys.executable, "-m", "tests.search", start, "--planted-as", name)
        done = subprocess.run(
            (*command, "--minutes", str(_ALONE / 60), "--departures", "1"),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            words = [line for line in done.stdout.splitlines() if "BROKEN" in line]
            return words[0] if words else f"raises {(done.stderr.strip().splitlines() or ['?'])[-1]}"
    return ""
