"""A cluster that changes its authority is a cluster that a running process still talks to."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from muster.controller.kube.client import Client
from muster.controller.kube.connection import (
    AUTHORITY_MAX_AGE,
    AuthorityFile,
    ConnectionSettingsError,
    in_cluster,
)
from muster.controller.kube.errors import TransportError
from muster.local.cluster import certificates
from tests.unit.controller_kube.fake_apiserver import answering


class Cluster:
    """Where a pod finds its authority, and a server that closes each connection after its answer."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, 0
        self.file = folder / "ca.crt"
        (folder / "token").write_text("secret")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._made = 0
        self.serves(self.authority())

    @property
    def environment(self) -> dict[str, str]:
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port)}

    def authority(self) -> certificates.Authority:
        """A new one, which pods trust from now on."""
        self._made += 1
        made = certificates.authority(self.folder / f"authority-{self._made}", f"authority {self._made}")
        self.file.write_bytes(made.pair.certificate.read_bytes())
        return made

    def serves(self, authority: certificates.Authority) -> None:
        pair = authority.issue(self.folder / "server", "server", hosts=("127.0.0.1",))
        self._context.load_cert_chain(pair.certificate, pair.key)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        async with answering(self._answer, tls=self._context) as self.port:
            connection = in_cluster(self.environment, directory=self.folder)
            async with Client(connection, field_manager="test") as client:
                yield client

    async def _answer(self, request: web.Request) -> web.Response:
        return web.json_response({"gitVersion": "v1"}, headers={"Connection": "close"})


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


async def test_a_new_authority_is_believed_as_soon_as_the_old_one_does_not_do(cluster: Cluster) -> None:
    async with cluster.client() as client:
        assert await client.version() == "v1"
        cluster.serves(cluster.authority())
        assert await client.version() == "v1"


async def test_a_server_of_an_authority_that_is_in_no_file_is_refused(cluster: Cluster) -> None:
    async with cluster.client() as client:
        good = cluster.file.read_bytes()
        cluster.serves(cluster.authority())
        cluster.file.write_bytes(good)
        with pytest.raises(TransportError, match="certificate verify failed"):
            await client.version()


def test_the_file_is_read_again_when_it_is_old_and_a_damaged_one_changes_nothing(cluster: Cluster) -> None:
    now = [0.0]
    trusted = AuthorityFile(cluster.file, clock=lambda: now[0])
    first = trusted()
    now[0] += AUTHORITY_MAX_AGE + 1
    assert trusted() is first, "the same content keeps its connections"
    cluster.authority()
    assert trusted() is first, "a file is read at most once a minute"
    now[0] += AUTHORITY_MAX_AGE + 1
    second = trusted()
    assert second is not first
    for damaged in (b"", b"-----BEGIN", b"\xff"):
        cluster.file.write_bytes(damaged)
        now[0] += AUTHORITY_MAX_AGE + 1
        assert trusted() is second
    cluster.authority()
    assert trusted() is not second, "it is looked at again until it is whole"


def test_a_pod_without_an_authority_does_not_start(cluster: Cluster) -> None:
    for damaged in (b"", b"no certificate"):
        cluster.file.write_bytes(damaged)
        with pytest.raises(ConnectionSettingsError, match=r"ca\.crt holds no certificate authority"):
            in_cluster(cluster.environment, directory=cluster.folder)
