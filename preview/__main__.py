"""`python -m preview`: check stack files, or tell what a change of them means.

Every command ends with 2 when its input cannot be used; what 0 and 1 mean, its own help says.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from preview.commands import comment, pins, report, snapshot, validate, why
from preview.errors import PreviewError
from preview.foreign import plain

_COMMANDS: Final = (validate, report, comment, why, snapshot, pins)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code."""
    options = _options(arguments)
    try:
        code: int = options.run(options)
    except PreviewError as error:
        print(plain(str(error), longest=2000), file=sys.stderr)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}.", file=sys.stderr)
    else:
        return code
    return 2


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m preview",
        description="What a change means, before it is.",
        epilog="Each command tells its options and exit codes with --help.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for each in _COMMANDS:
        each.add(commands)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
