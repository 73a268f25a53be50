"""`muster local demo`."""

from __future__ import annotations

from muster.cli.command import command
from muster.cli.options import name_option, programs_option
from muster.errors import ExitCode
from muster.local.demo.tour import tour


@command(
    examples="muster local demo\nmake up",
    codes={ExitCode.FOUND: "A step failed; its own exit code is returned."},
)
@name_option
@programs_option
def cli(name: str, *, programs: str | None) -> None:
    """Start the local cluster, deploy stack `local` with Pulumi, and run the gang example on it.

    Every step is a command that a user could type. The local cluster is left running.
    """
    tour(name, programs=programs)
