"""What differs between two versions of a Bundle's manifests, key by key. Pure."""

from collections.abc import Mapping
from typing import Literal

from muster.provider.manifests import same
from muster.provider.wire import known

Change = Literal["add", "update", "delete"]


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, Change]:
    """Keys whose objects differ.

    The same objects in another spelling are no change; an unknown text is one.
    """
    found: dict[str, Change] = {}
    for key in old.keys() | new.keys():
        if key not in new:
            found[key] = "delete"
        elif key not in old:
            found[key] = "add"
        elif not known(new[key]) or not same(old[key], new[key]):
            found[key] = "update"
    return dict(sorted(found.items()))


def path(key: str, name: str = "manifests") -> str:
    """The property path of a key, in the engine's notation."""
    quoted = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}["{quoted}"]'
