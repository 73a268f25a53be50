"""`muster local logs`."""

import subprocess

import click

from muster.cli.command import command
from muster.cli.local_cluster import living
from muster.cli.options import name_option
from muster.errors import ExitCode, MusterError

_EXAMPLES = """
muster local logs
muster local logs kube-apiserver --follow
"""


@command(examples=_EXAMPLES)
@click.argument("process", required=False, metavar="[PROCESS]")
@name_option
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they are written.")
@click.option("-n", "--lines", type=int, default=100, show_default=True, help="How many lines to begin with.")
def cli(process: str | None, *, name: str, follow: bool, lines: int) -> ExitCode:
    """Show the log of one process of the local cluster; without PROCESS, list the processes."""
    cluster = living(name)
    names = sorted(path.stem for path in cluster.logs.glob("*.log"))
    if process is None:
        click.echo("\n".join(names))
        return ExitCode.DONE
    if process not in names:
        raise MusterError(f"process {process!r} has no log.", fix=f"name one of {', '.join(names)}.")
    options = ["-n", str(lines), *(["-F"] if follow else [])]
    done = subprocess.run(["tail", *options, str(cluster.logs / f"{process}.log")], check=False)
    return ExitCode.DONE if done.returncode == 0 else ExitCode.OUTSIDE
