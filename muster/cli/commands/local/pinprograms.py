"""`muster local pin-programs`."""

import click

from muster.cli.command import command
from muster.errors import ExitCode
from muster.local.build.releases import pin
from muster.model.quantities import many
from muster.paths import VERSIONS_FILE


@command(
    examples="muster local pin-programs",
    codes={ExitCode.OUTSIDE: "A publisher does not answer; nothing was written."},
)
def cli() -> None:
    """Record the digests of released programs in versions.toml, from their publishers' checksum files.

    For a checkout of Muster, after a version was raised. From then on a download has to have the recorded
    digest, whatever its publisher serves.
    """
    changed = pin()
    for name, digests in changed.items():
        for arch, digest in digests.items():
            click.echo(f"{name} {arch}: sha256 {digest}")
    click.echo(f"{VERSIONS_FILE}: {many(len(changed), 'program')} changed")
