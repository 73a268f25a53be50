"""`muster ci pins`."""

from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.options import FILE, json_option
from muster.cli.output import put_json
from muster.errors import ExitCode
from muster.preview.plan import read_unpinned
from muster.printable import sanitize_line

_CODES = {ExitCode.DONE: "Everything is pinned.", ExitCode.FOUND: "Something is not pinned."}


@command(
    examples="muster ci pins .github/workflows/*.yml\nmuster ci pins .gitlab-ci.yml --json", codes=_CODES
)
@click.argument("files", type=FILE, nargs=-1, required=True, metavar="FILE...")
@json_option
def cli(files: tuple[Path, ...], *, as_json: bool) -> ExitCode:
    """Find actions and images in CI files that are not pinned by a digest.

    Names every action and image in workflows of GitHub Actions and pipelines of GitLab CI that is not pinned
    by its digest, and every placeholder of Muster's own files that is still to be filled in.
    """
    found = [(path, each) for path in files for each in read_unpinned(path)]
    if as_json:
        records = [
            {"file": str(path), "line": each.line, "what": each.what, "placeholder": each.is_placeholder}
            for path, each in found
        ]
        put_json({"loose": records})
    else:
        for path, each in found:
            click.echo(sanitize_line(f"{path}:{each.line}: {each.what}", longest=500))
            click.echo(f"    fix: {each.fix}")
    return ExitCode.FOUND if found else ExitCode.DONE
