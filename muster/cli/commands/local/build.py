"""`muster local build`."""

import time
from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.local_cluster import building
from muster.cli.options import FILE, programs_option
from muster.cli.output import note
from muster.local import preflight
from muster.local.build import everything
from muster.local.build.progress import clock_text

_EXAMPLES = """
muster local build
muster local build --only kai
"""


@command(examples=_EXAMPLES)
@click.option(
    "--only", default="", metavar="NAME", help="Build one program, image or asset, or everything of `kai`."
)
@click.option("--base", type=FILE, metavar="FILE", help="Root file system (tar) for the Python images.")
@click.option("--artifacts", type=FILE, metavar="FILE", help="Write the paths of what was built here, JSON.")
@programs_option
def cli(*, only: str, base: Path | None, artifacts: Path | None, programs: str | None) -> None:
    """Get the programs and images of the local cluster, and start nothing.

    Results are kept in a cache. After Ctrl-C the next run continues with what is missing.
    """
    started = time.monotonic()
    chosen = everything.chosen_programs(programs)
    if only:
        with building():
            built = everything.ensure_only(only, base=base, programs=chosen)
        for kind, where in built:
            click.echo(f"{kind}: {where}")
    else:
        preflight.check()
        with building():
            made = everything.ensure_all(base=base, programs=chosen)
        if artifacts:
            made.write(artifacts)
    note(f"took {clock_text(time.monotonic() - started)}")
