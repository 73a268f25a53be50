"""python -m account backend --stack NAME

Makes the bucket and the key that hold a stack's state and secrets, where they are missing, and prints the two
Pulumi commands that use them. Exit codes: 0 they are there, 1 not (the message says why), 2 wrong options.
"""

import argparse
import sys
from pathlib import Path

import stackconfig
from account.backend import NoBackend, make

_STACKS = Path(__file__).resolve().parents[1] / "stacks"


def main(arguments: list[str] | None = None) -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m account", description=__doc__, formatter_class=form)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("backend").add_argument("--stack", required=True)
    name = parser.parse_args(arguments).stack
    try:
        backend = make(stackconfig.load(_STACKS / f"Pulumi.{name}.yaml").cluster)
    except (NoBackend, stackconfig.ConfigError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    print(
        "\n".join(
            ["# the state's bucket and the key of its secrets are there; now run", *backend.commands(name)]
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
