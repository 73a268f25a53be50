"""`comment`: the report on the pull request, as the one comment that is kept up to date."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Final

from muster.cli.commands.declare import Commands, command
from muster.live.errors import PreviewError
from muster.live.sanitize import sanitize_line
from muster.live.web import WebError
from muster.preview.forge import summary, target
from muster.preview.forge.notes import CommentResult, Forge, upsert

_ABOUT: Final = """\
Creates or updates the one comment with the report on the pull request that this job runs for. It is found
again by a hidden marker, so a new run changes it and never adds another.

GitHub: GITHUB_TOKEN (permission pull-requests: write), GITHUB_REPOSITORY, GITHUB_EVENT_PATH or GITHUB_REF,
        GITHUB_API_URL. GitLab: GITLAB_TOKEN (a project access token with scope api), CI_API_V4_URL,
        CI_PROJECT_ID, CI_MERGE_REQUEST_IID. A token is read from the environment alone and never printed.

Without the right to comment (a fork's pull request: 403, 404) the report goes to the job's summary on
GitHub, and to muster-preview.md and the log on GitLab.

Exit code 0 when the report stands in a comment or, for want of rights, in the summary; 1 when the forge
failed otherwise (the report is in the summary then, too); 2 when the input cannot be used.
"""
_EXAMPLES: Final = """\
examples:
  muster diff --base base.yaml --head stacks/Pulumi.dev.yaml | muster ci comment
  muster ci comment --name dev report.md
"""
_LONGEST: Final = 65_000
_NO_RIGHTS: Final = (403, 404)


def add(commands: Commands) -> None:
    parser = command(
        commands, "comment", help="put a report on the pull request", about=_ABOUT, examples=_EXAMPLES
    )
    parser.add_argument(
        "report", nargs="?", default="-", metavar="FILE", help="the Markdown; default: standard input"
    )
    parser.add_argument(
        "--name", default="report", help="tells several comments on one pull request apart (default: report)"
    )
    parser.add_argument("--json", action="store_true", help="what was done, for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    body = _body(options.report)
    found = target.detect_target(os.environ)
    if found.forge is None:
        where = summary.write_summary(body, os.environ)
        return _tell(options, {"action": "summary", "where": where, "why": found.why}, code=0)
    return _comment(options, found.forge, body)


def _comment(options: argparse.Namespace, forge: Forge, body: str) -> int:
    try:
        written: CommentResult = upsert(forge, body, name=options.name)
    except WebError as error:
        where = summary.write_summary(body, os.environ)
        code = 0 if error.status in _NO_RIGHTS else 1
        return _tell(
            options, {"action": "summary", "where": where, "why": sanitize_line(str(error))}, code=code
        )
    return _tell(options, {"action": written.action, "url": written.url}, code=0)


def _tell(options: argparse.Namespace, done: dict[str, str], *, code: int) -> int:
    if options.json:
        print(json.dumps(done, indent=2))
    elif done["action"] == "summary":
        print(f"No comment: {done['why'].rstrip('.')}. The report is in {done['where']}.", file=sys.stderr)
    else:
        print(f"comment {done['action']}{': ' + sanitize_line(done['url']) if done['url'] else ''}")
    return code


def _body(name: str) -> str:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PreviewError(f"{name}: is not UTF-8 text. Fix: write it with `report --markdown`.") from None
    if not text.strip():
        raise PreviewError("the report is empty: nothing to comment. Fix: see why `report` wrote nothing.")
    if len(text) > _LONGEST:
        raise PreviewError(
            f"the report has {len(text)} characters and GitHub takes 65,536. Fix: write it with "
            "`report --markdown`, which stays below."
        )
    return text
