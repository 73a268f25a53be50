"""`muster ci`: helpers for CI pipelines."""

import os
import sys
from pathlib import Path
from typing import Final

import click

from muster.cli.command import command
from muster.cli.options import FILE, json_option
from muster.cli.output import note, put_json
from muster.errors import ExitCode, MusterError
from muster.preview.forge import CommentResult, Forge, WebError, detect_target, upsert, write_summary
from muster.preview.plan import read_unpinned
from muster.printable import sanitize_line

_EXAMPLES = """
muster diff gke-dev | muster ci comment
muster ci comment report.md --name dev
"""
_COMMENT_CODES = {
    ExitCode.DONE: "The report is in a comment or, without the right to comment, in the job's summary.",
    ExitCode.OUTSIDE: "GitHub or GitLab failed; the report is in the job's summary.",
}
_LONGEST: Final = 65_000
_NO_RIGHTS: Final = (403, 404)


@command(examples=_EXAMPLES, codes=_COMMENT_CODES)
@click.argument("report", default="-", metavar="[FILE]")
@click.option(
    "--name",
    default="report",
    show_default=True,
    metavar="NAME",
    help="Distinguishes several comments on one pull request.",
)
@json_option
def ci_comment(report: str, *, name: str, as_json: bool) -> ExitCode:
    """Put a report on the pull request or merge request of this job.

    FILE holds Markdown; the default is standard input. One comment is created and then kept up to date: a
    hidden marker identifies it. Without the right to comment (a fork's pull request) the report goes to the
    job's summary on GitHub, and to muster-preview.md and the log on GitLab.

    \b
    GitHub: GITHUB_TOKEN (permission pull-requests: write), GITHUB_REPOSITORY,
            GITHUB_EVENT_PATH or GITHUB_REF, GITHUB_API_URL
    GitLab: GITLAB_TOKEN (a project access token with scope api), CI_API_V4_URL,
            CI_PROJECT_ID, CI_MERGE_REQUEST_IID

    A token is read from the environment alone and never printed.
    """
    body = _body(report)
    found = detect_target(os.environ)
    if found.forge is None:
        where = write_summary(body, os.environ)
        _print({"action": "summary", "where": where, "why": found.why}, as_json=as_json)
        return ExitCode.DONE
    return _comment(found.forge, body, name=name, as_json=as_json)


def _comment(forge: Forge, body: str, *, name: str, as_json: bool) -> ExitCode:
    try:
        written: CommentResult = upsert(forge, body, name=name)
    except WebError as error:
        where = write_summary(body, os.environ)
        _print({"action": "summary", "where": where, "why": sanitize_line(str(error))}, as_json=as_json)
        return ExitCode.DONE if error.status in _NO_RIGHTS else ExitCode.OUTSIDE
    _print({"action": written.action, "url": written.url}, as_json=as_json)
    return ExitCode.DONE


def _print(done: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        put_json(done)
    elif done["action"] == "summary":
        note(f"No comment: {done['why'].rstrip('.')}. The report is in {done['where']}.")
    else:
        click.echo(f"comment {done['action']}{': ' + sanitize_line(done['url']) if done['url'] else ''}")


def _body(name: str) -> str:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise MusterError(
            f"{name}: cannot be read: {error.strerror}.",
            fix=f"write it with `muster diff --markdown {name}`.",
        ) from None
    except UnicodeDecodeError:
        raise MusterError(
            f"{name}: is not UTF-8 text.", fix="write it with `muster diff --markdown`."
        ) from None
    if not text.strip():
        raise MusterError(
            "the report is empty: nothing to comment.", fix="see why `muster diff` wrote nothing."
        )
    if len(text) > _LONGEST:
        raise MusterError(
            f"the report has {len(text)} characters and GitHub takes 65,536.",
            fix="write it with `muster diff --markdown`, which stays below.",
        )
    return text


_PINS_CODES = {ExitCode.DONE: "Everything is pinned.", ExitCode.FOUND: "Something is not pinned."}


@command(
    examples="muster ci pins .github/workflows/*.yml\nmuster ci pins .gitlab-ci.yml --json", codes=_PINS_CODES
)
@click.argument("files", type=FILE, nargs=-1, required=True, metavar="FILE...")
@json_option
def ci_pins(files: tuple[Path, ...], *, as_json: bool) -> ExitCode:
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
