"""The way of GangPolicy from one version to the next, as docs/upgrades.md plans it, on a real server."""

import base64
import json
import urllib.error
from collections.abc import Iterator
from typing import Any, Final

import pytest

from muster.model import gangpolicy, names
from muster.model.gangpolicy import GangPolicy
from tests.faults import etcd
from tests.integration.conftest import ApiServer
from tests.waiting import eventually

_GROUP: Final = "next.muster.dev"
_OLD, _NEW = names.VERSION, "v1beta1"
_MERGE: Final = "application/merge-patch+json"
_PLURAL: Final = names.GANG_POLICY_PLURAL
_DEFINITION: Final = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{_PLURAL}.{_GROUP}"


@pytest.fixture
def server(api_server: ApiServer) -> Iterator[ApiServer]:
    yield api_server
    api_server.call("DELETE", _DEFINITION)
    eventually("its definition is gone", lambda: not _is_defined(api_server))


def _is_defined(server: ApiServer) -> bool:
    at, _, name = _DEFINITION.rpartition("/")
    return any(each["metadata"]["name"] == name for each in server.call("GET", at)["items"])


def _define(server: ApiServer, *, served: tuple[str, ...], stored: str) -> None:
    """Every version with the schema of the one that there is."""
    definition = json.loads(json.dumps(gangpolicy.crd()))
    (known,) = definition["spec"]["versions"]
    definition["metadata"]["name"] = f"{_PLURAL}.{_GROUP}"
    definition["spec"] |= {
        "group": _GROUP,
        "versions": [
            {**known, "name": name, "served": name in served, "storage": name == stored}
            for name in {stored: None, **dict.fromkeys(served)}
        ],
    }
    server.define([definition])


def _path(version: str) -> str:
    return f"/apis/{_GROUP}/{version}/{_PLURAL}/{names.GANG_POLICY}"


def _write(server: ApiServer, version: str, **changes: object) -> dict[str, Any]:
    """As the program does: server-side apply of the whole."""
    manifest = json.loads(json.dumps(gangpolicy.to_manifest(GangPolicy())))
    manifest |= {"apiVersion": f"{_GROUP}/{version}"}
    manifest["spec"] |= changes
    found: dict[str, Any] = server.apply(manifest, _path(version))
    return found


def _version_in_store(server: ApiServer) -> str:
    key = base64.b64encode(f"/registry/{_GROUP}/{_PLURAL}/{names.GANG_POLICY}".encode()).decode()
    (pair,) = etcd.ask(server.etcd, "kv/range", {"key": key})["kvs"]
    return str(json.loads(base64.b64decode(pair["value"]))["apiVersion"]).rpartition("/")[2]


def _is_stored_anew(server: ApiServer) -> bool:
    """By a write that changes nothing: the server hears a moment later what it is to store it in."""
    server.call("PATCH", _path(_NEW), {}, content_type=_MERGE)
    return _version_in_store(server) == _NEW


def test_a_policy_goes_from_version_to_version_and_loses_nothing(server: ApiServer) -> None:
    _define(server, served=(_OLD,), stored=_OLD)
    _write(server, _OLD, retry={"base": "7s"}, queueTimeout="3h")
    # Step 1 and 2: served beside the old one; who knows the new one writes that.
    _define(server, served=(_OLD, _NEW), stored=_OLD)
    written = _write(server, _NEW, queueTimeout="4h")
    assert written["spec"]["retry"]["base"] != "7s", "what it does not say any more goes, whoever said it"
    assert server.call("GET", _path(_OLD))["spec"] == written["spec"], "who knows only the old one reads it"
    # Step 3: the definition alone stores nothing anew, and neither does an `up` that changes nothing.
    _define(server, served=(_OLD, _NEW), stored=_NEW)
    assert _version_in_store(server) == _OLD
    eventually("what is written is stored anew", lambda: _is_stored_anew(server))
    body = {"status": {"storedVersions": [_NEW]}}
    server.call("PATCH", f"{_DEFINITION}/status", body, content_type=_MERGE)
    # Step 4.
    _define(server, served=(_NEW,), stored=_NEW)
    assert server.call("GET", _path(_NEW))["spec"] == written["spec"]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        server.call("GET", _path(_OLD))
    assert _write(server, _NEW)["spec"]["queueTimeout"] != "4h", "and it is still the program's to write"


def test_a_version_that_is_stored_somewhere_cannot_be_taken_away(server: ApiServer) -> None:
    """What stops a step that comes too early."""
    _define(server, served=(_OLD,), stored=_OLD)
    _define(server, served=(_OLD, _NEW), stored=_NEW)
    with pytest.raises(urllib.error.HTTPError, match="422"):
        _define(server, served=(_NEW,), stored=_NEW)
