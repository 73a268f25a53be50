"""`muster`: check stack files, or tell what a change of them means.

Every command ends with 2 when its input cannot be used; what 0 and 1 mean, its own help says.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Final

from muster.live.errors import PreviewError
from muster.live.sanitize import sanitize_line

# In the order in which the help lists them; each is a module of muster.cli.commands.
_COMMANDS: Final = ("validate", "report", "comment", "why", "snapshot", "pins", "what-if", "doctor")

# What shells report of a command that ended by Ctrl-C: 128 and the signal's number.
_INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code."""
    options = _options(arguments)
    try:
        code: int = options.run(options)
    except PreviewError as error:
        print(sanitize_line(str(error), longest=2000), file=sys.stderr)
    except OSError as error:
        print(sanitize_line(f"{error.filename}: {error.strerror}."), file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped.", file=sys.stderr)
        return _INTERRUPTED
    else:
        return code
    return 2


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="muster",
        description="What a change means, before it is.",
        epilog="Each command tells its options and exit codes with --help.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    given = sys.argv[1:] if arguments is None else arguments
    # Only the command that is named is loaded: to check a file needs neither HTTP nor a page.
    for name in [name for name in _COMMANDS if name in given[:1]] or _COMMANDS:
        importlib.import_module(f"muster.cli.commands.{name.replace('-', '')}").add(commands)
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main())
