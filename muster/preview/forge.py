"""The one comment with the report on a pull request of GitHub or GitLab.

detect_target(environment)  the pull request that this CI job runs for
upsert(forge, ...)          creates or updates its comment
write_summary(...)          where the report goes without the right to comment

The comment is recognized by its hidden marker and its author. It is created once: when the response to a
creation is lost, the comment is looked up before the next attempt.

A credential goes only to the server that it belongs to: no redirect is followed, and no message contains a
header. Retried are the statuses 429, 403 with an exhausted rate limit and 502 to 504, and, for idempotent
calls, a server that does not respond. The delay is the server's: `Retry-After`
(https://www.rfc-editor.org/rfc/rfc9110#name-retry-after), or GitHub's `x-ratelimit-reset`
(https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api).
"""

import http.client
import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote, urlsplit

from muster import http_retries
from muster.errors import ExitCode, MusterError
from muster.http_retries import LOOPBACK
from muster.live.fields import Json, number, text
from muster.printable import sanitize_line

_TIMEOUT: Final = 30.0
_MAX_BYTES: Final = 256 * 1024 * 1024


class WebError(MusterError):
    """A call that failed. `status` is None when the server did not respond."""

    default_exit_code = ExitCode.OUTSIDE

    def __init__(self, message: str, *, fix: str = "", status: int | None = None) -> None:
        super().__init__(message, fix=fix)
        self.status = status


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def json(self, what: str) -> object:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise WebError(f"{what}: the response is not JSON.", status=self.status) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """One server. `headers` are sent with every call."""

    base: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = _TIMEOUT
    wait: Callable[[float], None] = field(default_factory=lambda: time.sleep)

    def call(self, method: str, path: str, body: object = None) -> Response:
        """The response of a successful call; WebError otherwise."""
        data = None if body is None else json.dumps(body).encode()
        try:
            response = http_retries.call(
                partial(self._once, method, path, data),
                method,
                tries=http_retries.TRIES,
                wait=self.wait,
                delay=_retry_delay,
            )
        except (OSError, http.client.HTTPException) as error:
            why = sanitize_line(str(getattr(error, "reason", "") or error) or type(error).__name__)
            what = f"{method} {self._sanitized_url(path)}: no response: {why}."
            raise WebError(what, fix="check the address, the network and its proxy.") from None
        if response.status >= 300:
            raise self._refused(method, path, response)
        return response

    def _once(self, method: str, path: str, data: bytes | None) -> Response:
        request = urllib.request.Request(  # noqa: S310 - the caller has checked the scheme of the base
            self.base + path,
            method=method,
            data=data,
            headers={**self.headers, **({"Content-Type": "application/json"} if data else {})},
        )
        try:
            with self._opener().open(request, timeout=self.timeout) as response:
                return Response(response.status, _headers(response.headers), _read_bounded(response))
        except urllib.error.HTTPError as error:
            with error:
                return Response(error.code, _headers(error.headers), _read_bounded(error))

    def _opener(self) -> urllib.request.OpenerDirector:
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if urllib.parse.urlsplit(self.base).hostname in http_retries.LOOPBACK:
            handlers.append(urllib.request.ProxyHandler({}))
        return urllib.request.build_opener(*handlers)

    def _refused(self, method: str, path: str, response: Response) -> WebError:
        message = sanitize_line(_parse_message(response.body), longest=400)
        where = f"{method} {self._sanitized_url(path)}"
        return WebError(
            f"{where}: answered {response.status}{f': {message}' if message else ''}.", status=response.status
        )

    def _sanitized_url(self, path: str) -> str:
        parts = urllib.parse.urlsplit(self.base + path)
        return sanitize_line(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as an ordinary response: following it would send the credential to another server."""

    def redirect_request(self, *_: object) -> None:
        return None


def _headers(found: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in found.items()}


def _read_bounded(response: http.client.HTTPResponse | urllib.error.HTTPError) -> bytes:
    body = response.read(_MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        raise OSError(f"the response is larger than {_MAX_BYTES // 2**20} MiB")
    return body


def _parse_message(body: bytes) -> str:
    """The error message, from the field that GitHub and GitLab use."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    message = (found.get("message") or found.get("error")) if isinstance(found, dict) else None
    return message if isinstance(message, str) else json.dumps(message) if message else ""


def _retry_delay(response: Response, attempt: int) -> float | None:
    """Seconds to wait before the next attempt; None when another attempt would not help."""
    headers = response.headers
    is_exhausted = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers
    if response.status not in http_retries.BUSY and not (response.status == 403 and is_exhausted):
        return None
    requested = _requested_delay(headers)
    delay = 2.0**attempt if requested is None else max(requested, 0.0)
    return delay if delay <= http_retries.LONGEST_DELAY else None


def _requested_delay(headers: Mapping[str, str]) -> float | None:
    after, reset = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", "")
    if after.isdigit():
        return float(after)
    if after:
        try:
            return parsedate_to_datetime(after).timestamp() - time.time()
        except ValueError:
            return None
    return float(reset) - time.time() if reset.isdigit() else None


# Writes the report where it can be read without the right to comment, which a fork's job does not have.
# GitHub shows what is appended to the file GITHUB_STEP_SUMMARY on the job's page, up to 1 MiB
# (https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#adding-a-job-summary).
# GitLab has no such page: the report goes into a file, to be kept as an artifact, and into the log.

ARTIFACT: Final = "muster-preview.md"


def write_summary(body: str, environment: Mapping[str, str]) -> str:
    """Write the report, and return where it is."""
    page = environment.get("GITHUB_STEP_SUMMARY", "")
    if page:
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(f"{body}\n")
        return "the job's summary"
    if environment.get("GITLAB_CI"):
        Path(ARTIFACT).write_text(body, encoding="utf-8")
        sys.stderr.write(body)
        return f"{ARTIFACT} and this log"
    sys.stderr.write(body)
    return "standard error"


_MAX_CREATIONS: Final = 3
# With 100 comments a page, these are 10,000 comments.
_MAX_PAGES: Final = 100
_NEXT: Final = re.compile(r'<([^<>]+)>;[^,<]*\brel="?next"?')


@dataclass(frozen=True, slots=True)
class Note:
    """A comment on the forge. `is_ours`: its author is the user of our token."""

    number: int
    body: str
    url: str
    is_ours: bool


class Forge(Protocol):
    """One pull request of one forge."""

    def notes(self) -> Iterator[Note]: ...

    def create(self, body: str) -> Note: ...

    def update(self, note: Note, body: str) -> Note: ...


@dataclass(frozen=True, slots=True)
class CommentResult:
    """What was done: `created`, `updated` or `unchanged`."""

    action: str
    url: str


def format_marker(name: str) -> str:
    """The hidden first line by which the comment of this name is recognized.

    Two hyphens would end an HTML comment, so a name keeps letters, digits, dots and single hyphens.
    """
    return f"<!-- muster:preview:{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-') or 'default'} -->"


def upsert(forge: Forge, body: str, *, name: str) -> CommentResult:
    """Create or update the comment. WebError when the forge refuses or does not respond."""
    first = format_marker(name)
    text = f"{first}\n{body}"
    for attempt in range(1, _MAX_CREATIONS + 1):
        note = _find_ours(forge, first)
        if note is not None:
            if note.body.rstrip() == text.rstrip():
                return CommentResult("unchanged", note.url)
            return CommentResult("updated", forge.update(note, text).url)
        try:
            return CommentResult("created", forge.create(text).url)
        except WebError as error:
            # It may have been created: look it up before the next attempt.
            if attempt == _MAX_CREATIONS or error.status not in (None, 502, 504):
                raise
    raise AssertionError("the last attempt returns or raises")


def _find_ours(forge: Forge, first: str) -> Note | None:
    """GitLab strips whitespace around a body, and GitHub may return CRLF line ends."""
    for note in forge.notes():
        if note.is_ours and note.body.replace("\r\n", "\n").lstrip().startswith(f"{first}\n"):
            return Note(note.number, note.body.replace("\r\n", "\n"), note.url, note.is_ours)
    return None


def list_pages(web: Web, path: str, what: str) -> Iterator[Json]:
    """Every item of a paginated list.

    Both forges name the next page in a `Link` header (https://www.rfc-editor.org/rfc/rfc8288). A link to
    another server is refused, because that server would get our token.
    """
    for _ in range(_MAX_PAGES):
        response = web.call("GET", path)
        found = response.json(what)
        if not isinstance(found, list):
            raise WebError(f"{what}: the response is not a list.", status=response.status)
        yield from (each for each in found if isinstance(each, dict))
        following = _next_page(response, web)
        if following is None:
            return
        path = following
    raise WebError(f"{what}: more than {_MAX_PAGES} pages.")


def _next_page(response: Response, web: Web) -> str | None:
    named = _NEXT.search(response.headers.get("link", ""))
    if named is None:
        return None
    base, url = urlsplit(web.base), urlsplit(named[1])
    if (url.scheme, url.netloc) != (base.scheme, base.netloc) or not named[1].startswith(web.base):
        raise WebError(f"the next page is on another server, {url.hostname}, and is not followed.")
    return named[1].removeprefix(web.base)


# Notes on a merge request of GitLab: https://docs.gitlab.com/api/notes/#merge-requests.
#
# A job's own token (CI_JOB_TOKEN) may not write notes; a project access token with the scope `api` may.


def _connect_gitlab(api: str, token: str) -> Web:
    return Web(
        base=api,
        headers={"Accept": "application/json", "PRIVATE-TOKEN": token, "User-Agent": "muster-preview"},
    )


@dataclass(frozen=True, slots=True)
class GitLab:
    """`project` is an id or `GROUP/NAME`. `page` is the URL of the merge request, because notes have none."""

    web: Web
    project: str
    merge_request: int
    page: str = ""

    @property
    def _path(self) -> str:
        return f"/projects/{quote(self.project, safe='')}/merge_requests/{self.merge_request}/notes"

    def notes(self) -> Iterator[Note]:
        user = number(self.web.call("GET", "/user").json("the user"), "id")
        path = f"{self._path}?per_page=100&sort=asc&order_by=created_at"
        for found in list_pages(self.web, path, "the notes of the merge request"):
            yield self._note(found, is_ours=user is not None and number(found, "author", "id") == user)

    def create(self, body: str) -> Note:
        return self._note(self.web.call("POST", self._path, {"body": body}).json("the new note"))

    def update(self, note: Note, body: str) -> Note:
        return self._note(
            self.web.call("PUT", f"{self._path}/{note.number}", {"body": body}).json("the note")
        )

    def _note(self, found: object, *, is_ours: bool = True) -> Note:
        identity = number(found, "id") or 0
        url = f"{self.page}#note_{identity}" if self.page else ""
        return Note(identity, text(found, "body"), url, is_ours)


# Comments on a pull request of GitHub.
# https://docs.github.com/en/rest/issues/comments: a pull request is an issue; comments are listed by 100.

_VERSION: Final = "2022-11-28"


def _connect_github(api: str, token: str) -> Web:
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


class Kind(StrEnum):
    GITHUB = "github"
    GITLAB = "gitlab"


class TargetError(MusterError):
    """The environment does not identify the pull request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentTarget:
    """`forge` is None where there is nothing to comment on; `why` is the reason."""

    kind: Kind | None
    forge: Forge | None
    why: str = ""


def detect_target(environment: Mapping[str, str]) -> CommentTarget:
    """The pull request that this job runs for.

    A token is read from the environment alone: an argument would be visible in the process list and in shell
    histories.

    https://docs.github.com/en/actions/reference/workflows-and-actions/variables
    https://docs.gitlab.com/ci/variables/predefined_variables/
    """
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
    forge = GitHub(_connect_github(api, token), repository, pull_request)
    return CommentTarget(kind=Kind.GITHUB, forge=forge)


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
    forge = GitLab(_connect_gitlab(api, token), project, int(merge_request), page)
    return CommentTarget(kind=Kind.GITLAB, forge=forge)


def _check_api_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise TargetError(f"{url}: a token is only sent over https://.", fix="use an https:// URL.")
    return url.rstrip("/")
