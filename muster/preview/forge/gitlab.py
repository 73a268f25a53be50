"""Notes on a merge request of GitLab: https://docs.gitlab.com/api/notes/#merge-requests.

A job's own token (CI_JOB_TOKEN) may not write notes; a project access token with the scope `api` may.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from muster.live.fields import number, text
from muster.live.web import Web
from muster.preview.forge.notes import Note, list_pages


def connect(api: str, token: str) -> Web:
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
