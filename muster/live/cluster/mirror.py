"""Lists of a cluster that stay current: each is read once, and then watched in a thread of its own.

A list that may not be read, or whose kind is not installed, is empty and named in `unreadable`. One whose
watch is cut, or asks for a version that the server no longer has, is read again.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Final

from muster.kubernetes.client import Client
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.live.fields import Json, items, mapping, sanitize_line, text

# The server sends a bookmark a minute on a watch without changes.
_SILENT: Final = 180.0
_RETRY: Final = 15.0
# Changes come in bursts, of which one picture is enough; ages are shown, so it is drawn again without one.
_BURST: Final = 1.0
_LONGEST: Final = 10.0


class Mirror:
    """`paths`: the lists by the names that the caller has for them, such as `/api/v1/nodes`."""

    def __init__(self, client: Client, paths: Mapping[str, str]) -> None:
        self._client, self._paths = client, dict(paths)
        self._objects: dict[str, dict[str, Json]] = {name: {} for name in paths}
        self._versions: dict[str, str] = {}
        self._changed = threading.Event()
        self.unreadable: dict[str, str] = {}

    def read(self) -> None:
        """Read every list. UnreachableError where the server does not respond, or not with a list."""
        for name in self._paths:
            self._read(name)

    def follow(self) -> None:
        """Keep what was read current, until the process ends."""
        for name in self._paths:
            threading.Thread(target=self._follow, args=(name,), daemon=True).start()

    def wait(self) -> None:
        """Until something has changed, or it is time to show ages again."""
        if self._changed.wait(_LONGEST):
            time.sleep(_BURST)
        self._changed.clear()

    def of(self, name: str) -> list[Json]:
        """The objects of a list, by namespace and name."""
        objects = self._objects[name].copy()
        return [objects[key] for key in sorted(objects)]

    def _read(self, name: str) -> None:
        try:
            found = self._client.call("GET", self._paths[name])
        except ApiError as error:
            if error.status not in (403, 404):
                what = f"GET {self._paths[name]}: answered {error.status}: {error.text}"
                raise UnreachableError(what) from error
            why = "may not be listed" if error.status == 403 else "are not served"
            self._objects[name], self._versions[name], self.unreadable[name] = {}, "", f"{name} {why}"
            return
        self._objects[name] = {_key(each): each for each in items(found, "items")}
        self._versions[name] = text(mapping(found, "metadata"), "resourceVersion")
        self.unreadable.pop(name, None)

    def _follow(self, name: str) -> None:
        while True:
            try:
                if not self._versions.get(name):
                    self._read(name)
                    self._changed.set()
                if version := self._versions.get(name):
                    self._watch(name, version)
            except (ApiError, UnreachableError, ValueError) as error:  # ValueError: a line that was cut
                self._versions[name] = ""
                self.unreadable[name] = f"{name}: {sanitize_line(str(error))}"
            if not self._versions.get(name):
                time.sleep(_RETRY)

    def _watch(self, name: str, version: str) -> None:
        path = f"{self._paths[name]}?watch=true&allowWatchBookmarks=true&resourceVersion={version}"
        for kind, found in _events(self._client.lines(path, silent=_SILENT)):
            if kind == "ERROR":  # The version is older than what the server keeps.
                self._versions[name] = ""
                return
            self._versions[name] = text(found, "metadata", "resourceVersion")
            if kind == "DELETED":
                self._objects[name].pop(_key(found), None)
            elif kind != "BOOKMARK":
                self._objects[name][_key(found)] = found
            if kind != "BOOKMARK":
                self._changed.set()


def _key(found: Json) -> str:
    return f"{text(found, 'metadata', 'namespace')}/{text(found, 'metadata', 'name')}"


def _events(lines: Iterator[str]) -> Iterator[tuple[str, Json]]:
    for line in lines:
        event = json.loads(line)
        yield text(event, "type"), mapping(event, "object")
