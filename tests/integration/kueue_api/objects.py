"""Objects of Kueue on a server: applied strictly, read, removed."""

import urllib.error
from typing import Any, Final

from muster.manifests import lean
from tests.envtest import ControlPlane, path_of

_STRICT: Final = "?fieldManager=test&force=true&fieldValidation=Strict"


class Refused(Exception):
    """What the server or one of Kueue's webhooks said instead."""


def apply(server: ControlPlane, item: dict[str, Any]) -> dict[str, Any]:
    """Server-side apply that prunes nothing: what the server does not know is refused."""
    item = lean(item)  # as a Bundle applies it, over what an earlier stack left there
    try:
        server.call("PATCH", path_of(item) + _STRICT, item, content_type="application/apply-patch+yaml")
    except urllib.error.HTTPError as refusal:
        place = f"{item['kind']} {item['metadata']['name']}"
        raise Refused(f"{place}: {refusal.read().decode(errors='replace')}") from None
    found: dict[str, Any] = server.call("GET", path_of(item))
    return found
