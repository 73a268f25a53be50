"""The objects of one collection, in memory.

Responsible for which of two versions of an object is newer, for the secondary indexes and for what changed.
The reflector talks to the API; listeners react.

Duplicates change nothing. A version older than the one held is dropped, and so is one of a uid that is known
to be deleted, from before its deletion; a list removes nothing that is younger than itself: our own writes
are stored here before a watch delivers them. All are compared by resourceVersion where the two are
comparable. What we have made and do not hold, although the watch has passed its version, is gone by now.

All of this holds within one history. A list of another one is refused: its version is older than what was
read, or, where a restore of etcd has raised the versions, an object is listed as it was before a change that
we know of.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic

from muster.controller.kube.reflector import HistoryReplaced, older
from muster.controller.kube.resource import Key, T

GRAVES = 4096
"""Uids of deleted objects that are remembered, each with the version at which it was gone, so that a repeated
old event cannot bring one back. A new one can: with a selector, DELETED also means that it is not selected.
"""

Listener = Callable[[T | None, T | None], None]
"""Called with (before, after); before is None when added, after is None when deleted."""

IndexFunction = Callable[[T], Iterable[Hashable]]
"""The values under which an object is found: none, one or several."""


_Keys = Key | dict[Key, None]
"""Under most values lies one object, and a dictionary for each would take more memory than many an object."""


class Store(Generic[T]):
    """The objects of a collection by key, by uid and by secondary index. A sink of a Reflector."""

    def __init__(self, *, indexes: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._uids: dict[str, Key] = {}
        self._functions = dict(indexes or {})
        self._indexes: dict[str, dict[Hashable, _Keys]] = {name: {} for name in self._functions}
        self._graves: OrderedDict[str, str] = OrderedDict()
        self._read_to = ""
        """The latest version that a list or a watch has brought."""
        self._unreadable: dict[Key, str] = {}
        self._makers: dict[Key, object] = {}
        self._listeners: list[Listener[T]] = []

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        """All objects, as they are now."""
        return iter(list(self._objects.values()))

    def get(self, key: Key) -> T | None:
        """The object as last delivered. While it is `unreadable` this is its last form that did decode."""
        return self._objects.get(key)

    def by_uid(self, uid: str) -> T | None:
        key = self._uids.get(uid)
        return self._objects.get(key) if key else None

    def by_index(self, index: str, value: Hashable) -> list[T]:
        """The objects that the index function files under `value`, oldest insertion first."""
        keys = self._indexes[index].get(value)
        if keys is None:
            return []
        return [self._objects[keys]] if isinstance(keys, Key) else [self._objects[key] for key in keys]

    def counts(self, index: str) -> Mapping[Any, int]:
        """How many objects there are under each value."""
        return {
            value: 1 if isinstance(keys, Key) else len(keys) for value, keys in self._indexes[index].items()
        }

    def index_values(self, index: str) -> list[Hashable]:
        return list(self._indexes[index])

    def unreadable(self, key: Key) -> str | None:
        """Why the present form of this object does not decode, or None when it does (or there is none)."""
        return self._unreadable.get(key)

    @property
    def unreadable_count(self) -> int:
        return len(self._unreadable)

    def listen(self, listener: Listener[T]) -> None:
        self._listeners.append(listener)

    def tell(self, before: T | None, after: T | None) -> None:
        """Let the listeners know of an object that is computed: no API server keeps it, no index has it."""
        self._notify(before, after)

    def known(self, obj: T) -> T:
        held = self._objects.get(obj.key)
        if held is None or held.metadata.resource_version != obj.metadata.resource_version:
            return obj
        return held if held.metadata.uid == obj.metadata.uid else obj

    def replace(
        self, objects: list[T], *, unreadable: Mapping[Key, str], version: str, new_history: bool
    ) -> None:
        if new_history or any(self._is_rewritten(obj, listed=version) for obj in objects):
            raise HistoryReplaced(
                f"the API server lists a state from before what it has shown already (at {version}, after "
                f"{self._read_to}), as after a restore of etcd from a backup; a restart reads all anew"
            )
        self._advance(version)
        present = {obj.key for obj in objects} | unreadable.keys()
        for held in [held for key, held in self._objects.items() if key not in present]:
            if not older(version, held.metadata.resource_version):
                self._bury(held, at=version)
        self._unreadable = dict(unreadable)
        for obj in objects:
            self._put(obj)

    def _is_rewritten(self, obj: T, *, listed: str) -> bool:
        """Whether a list that is no older than what we know of an object shows it as it was before that."""
        held = self._objects.get(obj.key)
        is_held = held is not None and held.metadata.uid == obj.metadata.uid
        known = held.metadata.resource_version if held and is_held else self._graves.get(obj.metadata.uid, "")
        return older(obj.metadata.resource_version, known) and not older(listed, known)

    def put(self, obj: T) -> None:
        self._advance(obj.metadata.resource_version)
        self._put(obj)

    def remember(self, obj: T) -> None:
        """The answer to a change of ours. It never brings back what is gone: that may only have left the
        selection, and then no watch would show its end.
        """
        if obj.metadata.uid in self._uids:
            self._put(obj)

    def add(self, obj: T) -> None:
        """The answer to a create of ours, however late it comes."""
        meta = obj.metadata
        if meta.uid in self._uids or not self._read_to or older(self._read_to, meta.resource_version):
            self._put(obj)

    @contextmanager
    def making(self, key: Key, *, by: object) -> Iterator[None]:
        """While an object is created: a watch may bring it before the API server has answered."""
        self._makers[key] = by
        try:
            yield
        finally:
            self._makers.pop(key, None)

    def maker(self, key: Key) -> object:
        """Who creates an object of this key now; None where nobody does."""
        return self._makers.get(key)

    def _advance(self, version: str) -> None:
        if not self._read_to or older(self._read_to, version):
            self._read_to = version

    def has_read_to(self, version: str) -> bool:
        """Whether a list or a watch has brought everything up to this version of the collection. False where
        the two cannot be compared.
        """
        return version == self._read_to != "" or older(version, self._read_to)

    def is_gone(self, uid: str) -> bool:
        """Whether an object of this uid was here and was deleted; False also where that is not known."""
        return uid in self._graves

    def _put(self, obj: T) -> None:
        meta, key = obj.metadata, obj.key
        before = self._objects.get(key)
        if before is not None and before.metadata.uid != meta.uid:
            if self._precedes(obj, before):
                return
            self._bury(before, at=meta.resource_version)
            before = None
        if self._is_dead(obj) or self._stale(obj, before):
            return
        self._unreadable.pop(key, None)
        if before is not None and before.metadata.resource_version == meta.resource_version:
            return
        self._graves.pop(meta.uid, None)
        self._objects[key] = obj
        self._uids[meta.uid] = key
        self._reindex(key, before, obj)
        self._notify(before, obj)

    @staticmethod
    def _precedes(obj: T, other: T) -> bool:
        return older(obj.metadata.resource_version, other.metadata.resource_version)

    def _is_dead(self, obj: T) -> bool:
        died_at = self._graves.get(obj.metadata.uid)
        return died_at is not None and not older(died_at, obj.metadata.resource_version)

    def _stale(self, obj: T, before: T | None) -> bool:
        return before is not None and self._precedes(obj, before)

    def remove(self, obj: T) -> None:
        uid, version = obj.metadata.uid, obj.metadata.resource_version
        held = self._objects.get(obj.key)
        self._advance(version)
        self._unreadable.pop(obj.key, None)
        if held is not None and (not uid or held.metadata.uid == uid):
            self._bury(held, at=version or held.metadata.resource_version)
        elif uid:
            self._remember_grave(uid, version)

    def forget(self, uid: str) -> None:
        """It was deleted by us: the watch has yet to show it."""
        if (held := self.by_uid(uid)) is not None:
            self._bury(held, at=held.metadata.resource_version)

    def mark_unreadable(self, key: Key, message: str) -> None:
        self._unreadable[key] = message

    def _bury(self, held: T, *, at: str) -> None:
        del self._objects[held.key]
        self._uids.pop(held.metadata.uid, None)
        self._remember_grave(held.metadata.uid, at)
        self._reindex(held.key, held, None)
        self._notify(held, None)

    def _remember_grave(self, uid: str, version: str) -> None:
        self._graves[uid] = version
        if len(self._graves) > GRAVES:
            self._graves.popitem(last=False)

    def _reindex(self, key: Key, before: T | None, after: T | None) -> None:
        for name, function in self._functions.items():
            index = self._indexes[name]
            old = tuple(function(before)) if before is not None else ()
            new = tuple(function(after)) if after is not None else ()
            if old == new:
                continue  # As most changes are, and no set is made for those.
            for value in set(old).difference(new):
                _remove(index, value, key)
            for value in set(new).difference(old):
                _add(index, value, key)

    def _notify(self, before: T | None, after: T | None) -> None:
        for listener in self._listeners:
            listener(before, after)


def _add(index: dict[Hashable, _Keys], value: Hashable, key: Key) -> None:
    held = index.get(value)
    if held is None:
        index[value] = key
    elif isinstance(held, Key):
        index[value] = {held: None, key: None}
    else:
        held[key] = None


def _remove(index: dict[Hashable, _Keys], value: Hashable, key: Key) -> None:
    held = index.get(value)
    if isinstance(held, dict):
        held.pop(key, None)
    if not held or held == key:
        index.pop(value, None)
