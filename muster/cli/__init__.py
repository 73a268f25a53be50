"""The command line `muster`.

How to add a command:

1. Write a function under the decorator `muster.cli.command.command`: `cli` in `muster/cli/commands/NAME.py`
   (a dash in the name is left out), or `GROUP_NAME` in the module of a group. Its docstring is the help text;
   `examples=` and `codes=` become sections of `--help`. Options and arguments are click's; those that several
   commands share (`--json`, `--kubeconfig`, `--context`, `--name`, STACK) come from `muster.cli.options`.
2. List it in `muster/cli/table.py` with its one-line summary, and its module where that holds several. The
   module is imported only when the command is named.
3. Write the reference page anew: `make reference`.

The function returns None or an `ExitCode`. It raises MusterError for everything that a user can fix: `main`
prints `Error: ...` and `Fix: ...` to standard error and exits with the error's code. Results go to standard
output; progress goes to standard error by `muster.cli.output.note`, which `--quiet` silences.
"""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    try:
        from muster.cli.run import run

        return run(arguments)
    except KeyboardInterrupt:  # While Python still imports; later `run` reports it.
        print("Error: interrupted.", file=sys.stderr)
        return 130
