"""`muster bench`."""

import subprocess
import sys

import click

from muster.cli.command import command
from muster.errors import ExitCode, MusterError
from muster.paths import IMPORT_ROOT

_EXAMPLES = """
muster bench
muster bench --cases burst:1000x3 --rounds 5 --minutes 20 --json
muster bench -- --help
"""
_PROGRAM = "bench.gangs"


@command(examples=_EXAMPLES)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[OPTION OF THE BENCHMARK]...")
def cli(arguments: tuple[str, ...]) -> ExitCode:
    """Measure gang admission beside Kueue's own check.

    Runs the benchmark of a checkout of Muster; an installed package does not hold it. It needs the programs
    of the local cluster (`muster local build`) and no root. `muster bench -- --help` lists its options.
    """
    if not (IMPORT_ROOT / "bench" / "gangs").is_dir():
        raise MusterError(
            "the benchmark is not part of the installed package.",
            fix="run it in a checkout of Muster: python -m muster bench.",
        )
    process = subprocess.Popen([sys.executable, "-m", _PROGRAM, *arguments], cwd=IMPORT_ROOT)
    code = _code(process)
    return ExitCode(code) if code in set(ExitCode) else ExitCode.OUTSIDE


def _code(process: subprocess.Popen[bytes]) -> int:
    """Its exit code. Ctrl-C reaches the benchmark as well, which then writes what it has measured."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


# Options that this command does not know are the benchmark's.
cli.ignore_unknown_options = True
