"""Fakes of the comment APIs of GitHub and GitLab, after their documentation.

Comments in pages with a `Link` header, authors, rights, and what goes wrong on the way: a busy server, an
answer that is lost after the work was done.
"""

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.unit.preview.http_world import Asked, Reply

TOKEN = "s3cr3t-token"
REPOSITORY = "acme/platform"
PROJECT = "42"


@dataclass(slots=True)
class Comments:
    """The state behind the API. `first` are answers that come before any work is done, `lost` how many
    creations do their work and then lose their answer.
    """

    base: str = ""
    me: str | None = "muster-bot"
    may_write: bool = True
    bodies: list[dict[str, Any]] = field(default_factory=list)
    first: list[Reply] = field(default_factory=list)
    lost: int = 0

    def say(self, body: str, *, author: str = "somebody", kind: str = "User") -> None:
        number = len(self.bodies) + 1
        self.bodies.append(
            {
                "id": number,
                "body": body,
                "html_url": f"https://forge.example/1#{number}",
                "user": {"login": author, "type": kind},
                "author": {"id": author, "username": author},
            }
        )


def _page(state: Comments, asked: Asked) -> Reply:
    url = urlsplit(asked.path)
    query = {key: values[0] for key, values in parse_qs(url.query).items()}
    page, size = int(query.get("page", 1)), min(int(query["per_page"]), 100)
    found = state.bodies[(page - 1) * size : page * size]
    links = [f'<{state.base}{url.path}?per_page={size}&page=1>; rel="first"']
    if page * size < len(state.bodies):
        links.insert(0, f'<{state.base}{url.path}?per_page={size}&page={page + 1}>; rel="next"')
    return Reply(body=found, headers={"Link": ", ".join(links)})


def github(state: Comments, asked: Asked) -> Reply:
    path = urlsplit(asked.path).path
    if asked.headers.get("authorization") != f"Bearer {TOKEN}":
        return Reply(401, {"message": "Bad credentials"})
    if state.first:
        return state.first.pop(0)
    if path == "/user":
        if state.me is None:
            return Reply(403, {"message": "Resource not accessible by integration"})
        return Reply(body={"login": state.me})
    list_path = f"/repos/{REPOSITORY}/issues/7/comments"
    if asked.method == "GET" and path == list_path:
        return _page(state, asked)
    if not state.may_write:
        return Reply(403, {"message": "Resource not accessible by integration"})
    if asked.method == "POST" and path == list_path:
        return _create(state, asked, author=state.me or "github-actions[bot]", kind="Bot")
    edited = re.fullmatch(rf"/repos/{REPOSITORY}/issues/comments/(\d+)", path)
    if asked.method == "PATCH" and edited:
        return _edit(state, asked, int(edited[1]))
    return Reply(404, {"message": "Not Found"})


def gitlab(state: Comments, asked: Asked) -> Reply:
    path = urlsplit(asked.path).path
    if asked.headers.get("private-token") != TOKEN:
        return Reply(401, {"message": "401 Unauthorized"})
    if state.first:
        return state.first.pop(0)
    if path == "/user":
        return Reply(body={"id": 5, "username": state.me})
    list_path = f"/projects/{PROJECT}/merge_requests/7/notes"
    if asked.method == "GET" and path == list_path:
        reply = _page(state, asked)
        assert isinstance(reply.body, list)
        notes = [
            {**each, "author": {"id": 5 if each["author"]["id"] == state.me else 6}} for each in reply.body
        ]
        return Reply(body=notes, headers=reply.headers)
    if not state.may_write:
        return Reply(403, {"message": "403 Forbidden"})
    if asked.method == "POST" and path == list_path:
        return _create(state, asked, author=state.me or "", kind="User")
    edited = re.fullmatch(rf"{list_path}/(\d+)", path)
    if asked.method == "PUT" and edited:
        return _edit(state, asked, int(edited[1]))
    return Reply(404, {"message": "404 Not Found"})


def _create(state: Comments, asked: Asked, *, author: str, kind: str) -> Reply:
    assert isinstance(asked.body, dict)
    state.say(asked.body["body"], author=author, kind=kind)
    if state.lost:
        state.lost -= 1
        return Reply(is_cut=True)
    return Reply(201, state.bodies[-1])


def _edit(state: Comments, asked: Asked, number: int) -> Reply:
    assert isinstance(asked.body, dict)
    state.bodies[number - 1]["body"] = asked.body["body"]
    return Reply(body=state.bodies[number - 1])
