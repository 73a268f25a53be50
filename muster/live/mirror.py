"""Waits for changes of a cluster's lists, and keeps lists current.

Each list is watched in a thread of its own. One that may not be read, or whose kind is not installed, is
named in `unreadable`. One whose watch is cut, or asks for a version that the server no longer has, is begun
anew.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from muster.kubernetes.client import Client
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.live.fields import Json, items, mapping, text
from muster.printable import sanitize_line

_RETRY: Final = 15.0
# Changes come in bursts, of which one picture is enough; ages are shown, so it is drawn again without one.
_BURST: Final = 1.0
_LONGEST: Final = 10.0


class Changes:
    """Notices that something in the lists has changed. `paths`: the lists by the names that the caller has
    for them, such as `/api/v1/nodes`.
    """

    # A list's version is all that a watch needs to begin.
    _query = "?limit=1"

    def __init__(self, client: Client, paths: Mapping[str, str]) -> None:
        self._client, self._paths = client, dict(paths)
        self._versions: dict[str, str] = {}
        self._changed = threading.Event()
        self.unreadable: dict[str, str] = {}

    def follow(self) -> None:
        """Watch, until the process ends."""
        for name in self._paths:
            threading.Thread(target=self._follow, args=(name,), daemon=True).start()

    def wait(self) -> None:
        """Until something has changed, or it is time to show ages again."""
        if self._changed.wait(_LONGEST):
            time.sleep(_BURST)
        self._changed.clear()

    def _read(self, name: str) -> None:
        """The version of a list."""
        try:
            listed = self._client.get(f"{self._paths[name]}{self._query}")
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            why = "may not be listed" if error.status == 403 else "are not served"
            listed, self.unreadable[name] = {}, f"{name} {why}"
        else:
            self.unreadable.pop(name, None)
        self._keep(name, listed)
        self._versions[name] = text(mapping(listed, "metadata"), "resourceVersion")

    def _keep(self, name: str, listed: Json) -> None:
        """What to keep of a list."""

    def _change(self, name: str, kind: str, changed: Any) -> None:
        """What to do with an object that was ADDED, MODIFIED or DELETED."""

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
        for kind, changed in self._client.watch(self._paths[name], version):
            if kind == "ERROR":  # The version is older than what the server keeps.
                self._versions[name] = ""
                return
            self._versions[name] = text(changed, "metadata", "resourceVersion")
            if kind != "BOOKMARK":
                self._change(name, kind, changed)
                self._changed.set()


class Mirror(Changes):
    """Keeps the objects of the lists current. A list that may not be read is empty."""

    _query = ""

    def __init__(self, client: Client, paths: Mapping[str, str]) -> None:
        super().__init__(client, paths)
        self._objects: dict[str, dict[str, Json]] = {name: {} for name in paths}

    def read(self) -> None:
        """Read every list. MusterError where the server does not respond, or not with a list."""
        for name in self._paths:
            self._read(name)

    def of(self, name: str) -> list[Json]:
        """The objects of a list, by namespace and name."""
        objects = self._objects[name].copy()
        return [objects[key] for key in sorted(objects)]

    def _keep(self, name: str, listed: Json) -> None:
        self._objects[name] = {_key(each): each for each in items(listed, "items")}

    def _change(self, name: str, kind: str, changed: Any) -> None:
        if kind == "DELETED":
            self._objects[name].pop(_key(changed), None)
        else:
            self._objects[name][_key(changed)] = changed


def _key(body: Json) -> str:
    return f"{text(body, 'metadata', 'namespace')}/{text(body, 'metadata', 'name')}"
