"""Comments on a pull request of GitHub.

https://docs.github.com/en/rest/issues/comments: a pull request is an issue; comments are listed by 100.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from muster.live.fields import Json, number, text
from muster.live.web import Web, WebError
from muster.preview.forge.notes import Note, list_pages

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
