"""muster backend create --stack NAME

Makes the bucket and the key that hold a stack's state and secrets, where they are missing, and prints the two
Pulumi commands that use them. Exit codes: 0 they are there, 1 not (the message says why), 2 wrong options.
"""

import argparse
import sys

from muster import config, paths
from muster.cloud.backend import NoBackend, make


def main(arguments: list[str] | None = None) -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="muster backend", description=__doc__, formatter_class=form)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("backend").add_argument("--stack", required=True)
    name = parser.parse_args(arguments).stack
    try:
        backend = make(config.load(paths.stack_file(name)).cluster)
    except (NoBackend, config.ConfigError) as problem:
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
