"""`python -m tests.fuzz`: see the package."""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.fuzz.importers import importers
from tests.fuzz.mutations import attempt, changed, digest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=600, help="for each importer")
    parser.add_argument("--seed", type=int, default=None, help="default: of the clock")
    parser.add_argument("--only", choices=sorted(importers()), help="one importer")
    given = parser.parse_args()
    seed = time.time_ns() if given.seed is None else given.seed
    failed = 0
    for name, importer in importers().items():
        if given.only not in (None, name):
            continue
        dice, ends, tries = Random(f"{seed} {name}"), time.monotonic() + given.seconds, 0
        with tempfile.TemporaryDirectory() as folder:
            while time.monotonic() < ends:
                content, tries = changed(importer.seeds, dice), tries + 1
                try:
                    attempt(importer, content, Path(folder))
                except BaseException as problem:
                    kept = Path(f"fuzz-{name.replace(' ', '-')}-{digest(content)}{importer.ending}")
                    kept.write_bytes(content)
                    print(f"{name}: {kept}: {type(problem).__name__}: {problem}", file=sys.stderr)
                    failed += 1
                    if not isinstance(problem, Exception):
                        raise
                    break
        print(f"{name}: {tries} files, seed {seed}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
