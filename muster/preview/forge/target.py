"""Detects the pull request that a CI job runs for, from the job's environment variables.

A token is only read from the environment: an argument would be visible in the process list and in shell
histories.

https://docs.github.com/en/actions/reference/workflows-and-actions/variables
https://docs.gitlab.com/ci/variables/predefined_variables/
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from muster.live.errors import PreviewError
from muster.live.fields import Json, number, text
from muster.live.web import Web, WebError
from muster.preview.forge import gitlab
from muster.preview.forge.gitlab import GitLab
from muster.preview.forge.notes import Forge, Note, list_pages

# Comments on a pull request of GitHub.
# https://docs.github.com/en/rest/issues/comments: a pull request is an issue; comments are listed by 100.

_VERSION: Final = "2022-11-28"


def connect(api: str, token: str) -> Web:
    return Web(
        base=api,
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token}",
            "User-Agent": "muster-preview",
            "X-GitHub-Api-Version": _VERSION,
        },
    )


@dataclass(frozen=True, slots=True)
class GitHub:
    """`repository` is `OWNER/NAME`."""

    web: Web
    repository: str
    pull_request: int

    def notes(self) -> Iterator[Note]:
        login = self._login()
        path = f"/repos/{self.repository}/issues/{self.pull_request}/comments?per_page=100"
        for found in list_pages(self.web, path, "the comments of the pull request"):
            author = text(found, "user", "login") if login else text(found, "user", "type")
            yield self._note(found, is_ours=author == (login or "Bot"))

    def create(self, body: str) -> Note:
        path = f"/repos/{self.repository}/issues/{self.pull_request}/comments"
        return self._note(self.web.call("POST", path, {"body": body}).json("the new comment"))

    def update(self, note: Note, body: str) -> Note:
        path = f"/repos/{self.repository}/issues/comments/{note.number}"
        return self._note(self.web.call("PATCH", path, {"body": body}).json("the comment"))

    def _login(self) -> str:
        """The login of the token; "" for a workflow's own token, which belongs to an app and comments as a
        bot.
        """
        try:
            return text(self.web.call("GET", "/user").json("the user"), "login")
        except WebError as error:
            if error.status in (403, 404):
                return ""
            raise

    def _note(self, found: Json | object, *, is_ours: bool = True) -> Note:
        return Note(number(found, "id") or 0, text(found, "body"), text(found, "html_url"), is_ours)


_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class Kind(StrEnum):
    GITHUB = "github"
    GITLAB = "gitlab"


class TargetError(PreviewError):
    """The environment does not identify the pull request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentTarget:
    """`forge` is None where there is nothing to comment on; `why` is the reason."""

    kind: Kind | None
    forge: Forge | None
    why: str = ""


def detect_target(environment: Mapping[str, str]) -> CommentTarget:
    """The pull request that this job runs for."""
    if environment.get("GITLAB_CI"):
        return _gitlab(environment)
    if environment.get("GITHUB_ACTIONS") or environment.get("GITHUB_REPOSITORY"):
        return _github(environment)
    return CommentTarget(kind=None, forge=None, why="this is not a job of GitHub Actions or GitLab CI")


def draws_mermaid(environment: Mapping[str, str]) -> bool:
    """Whether a comment of this job is shown by a forge that draws Mermaid. Elsewhere it is text."""
    return any(environment.get(name) for name in ("GITHUB_ACTIONS", "GITLAB_CI"))


def _github(environment: Mapping[str, str]) -> CommentTarget:
    repository, token = environment.get("GITHUB_REPOSITORY", ""), environment.get("GITHUB_TOKEN", "")
    pull_request = _pull_request(environment)
    if pull_request is None:
        return CommentTarget(
            kind=Kind.GITHUB, forge=None, why="this workflow does not run for a pull request"
        )
    if not token:
        return CommentTarget(kind=Kind.GITHUB, forge=None, why="GITHUB_TOKEN is not set")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.ASCII):
        raise TargetError(
            f"GITHUB_REPOSITORY is {repository!r}, not OWNER/NAME.", fix="set it to the repository."
        )
    api = _check_api_url(environment.get("GITHUB_API_URL") or "https://api.github.com")
    return CommentTarget(kind=Kind.GITHUB, forge=GitHub(connect(api, token), repository, pull_request))


def _pull_request(environment: Mapping[str, str]) -> int | None:
    """From the event, which has it for every trigger, or else from the ref."""
    event = environment.get("GITHUB_EVENT_PATH", "")
    if event and Path(event).is_file():
        try:
            found = json.loads(Path(event).read_text(encoding="utf-8"))
        except ValueError:
            found = None
        named = number(found, "pull_request", "number")
        if named is not None:
            return named
    ref = re.fullmatch(r"refs/pull/(\d+)/\w+", environment.get("GITHUB_REF", ""), re.ASCII)
    return int(ref[1]) if ref else None


def _gitlab(environment: Mapping[str, str]) -> CommentTarget:
    merge_request, token = environment.get("CI_MERGE_REQUEST_IID", ""), environment.get("GITLAB_TOKEN", "")
    if not merge_request.isdigit():
        return CommentTarget(
            kind=Kind.GITLAB, forge=None, why="this pipeline does not run for a merge request"
        )
    if not token:
        why = "GITLAB_TOKEN is not set (a project access token with scope api; CI_JOB_TOKEN may not comment)"
        return CommentTarget(kind=Kind.GITLAB, forge=None, why=why)
    # The notes of a fork's merge request belong to the project that it will be merged into.
    project = environment.get("CI_MERGE_REQUEST_PROJECT_ID") or environment.get("CI_PROJECT_ID", "")
    if not project:
        raise TargetError("CI_PROJECT_ID is not set.", fix="set it to the id of the project.")
    page = environment.get("CI_MERGE_REQUEST_PROJECT_URL", "")
    page = f"{page}/-/merge_requests/{merge_request}" if page else ""
    api = _check_api_url(environment.get("CI_API_V4_URL") or "https://gitlab.com/api/v4")
    forge = GitLab(gitlab.connect(api, token), project, int(merge_request), page)
    return CommentTarget(kind=Kind.GITLAB, forge=forge)


def _check_api_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise TargetError(f"{url}: a token is only sent over https://.", fix="use an https:// URL.")
    return url.rstrip("/")
