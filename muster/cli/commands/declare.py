"""How a command declares itself to argparse."""

import argparse
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = object


def command(
    commands: Commands, name: str, *, help: str, about: str, examples: str = ""
) -> argparse.ArgumentParser:
    """The parser of a command, whose help keeps the lines that it is written in."""
    return commands.add_parser(
        name,
        help=help,
        description=about,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
