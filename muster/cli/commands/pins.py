"""`pins`: what CI files take from others without a digest."""

import argparse
import json
from pathlib import Path
from typing import Final

from muster.cli.commands.declare import Commands, command
from muster.live.sanitize import sanitize_line
from muster.preview.pins import read_unpinned

_ABOUT: Final = """\
Names every action and image in workflows of GitHub Actions and pipelines of GitLab CI that is not pinned by
its digest, and every placeholder of Muster's own files (docs/ci) that is still to be filled in.

Exit code 0 when all are pinned, 1 when one is not, 2 when a file cannot be read.
"""


def add(commands: Commands) -> None:
    parser = command(commands, "pins", help="what CI files take from others without a digest", about=_ABOUT)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    found = [(path, each) for path in options.files for each in read_unpinned(path)]
    if options.json:
        records = [
            {"file": str(path), "line": each.line, "what": each.what, "placeholder": each.is_placeholder}
            for path, each in found
        ]
        print(json.dumps({"loose": records}, indent=2))
    else:
        for path, each in found:
            print(sanitize_line(f"{path}:{each.line}: {each.what}", longest=500))
            print(f"    fix: {each.fix}")
    return 1 if found else 0
