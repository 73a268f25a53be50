"""Writes objects straight into the etcd of a temporary API server.

An API server sets the creation time of every object that it creates, and Kueue orders Workloads by that time.
Written to etcd, objects keep their original times, and ten thousand of them take a second. The format is the
one that the API server stores for a custom resource (JSON, in the storage version of its definition).
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

import aiohttp

Each = TypeVar("Each")

# etcd's own limits: operations and bytes of one transaction (--max-txn-ops, --max-request-bytes).
_MAX_OPERATIONS: Final = 100
# All keys of a transaction have one revision. The API server counts it as seen with the first of them, and a
# list then lacks the others for good. A later revision, of a key that it does not serve, shows that all are
# seen.
_MARK: Final = "/muster/loaded"
_SECONDS: Final = aiohttp.ClientTimeout(total=60)


async def put(etcd: str, objects: Iterable[tuple[str, bytes]]) -> int:
    """Write every key and value through etcd's JSON gateway; returns how many there were.

    https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway
    """
    count = 0
    async with aiohttp.ClientSession(base_url=etcd, timeout=_SECONDS) as session:
        for batch in _batches(iter(objects)):
            puts = [
                {"requestPut": {"key": _text(key.encode()), "value": _text(value)}} for key, value in batch
            ]
            await _post(session, "/v3/kv/txn", {"success": puts})
            count += len(batch)
        await _post(session, "/v3/kv/put", {"key": _text(_MARK.encode()), "value": ""})
    return count


async def _post(session: aiohttp.ClientSession, path: str, request: Mapping[str, Any]) -> None:
    async with session.post(path, json=request) as answer:
        answer.raise_for_status()


def _batches(objects: Iterator[Each]) -> Iterator[list[Each]]:
    while batch := list(islice(objects, _MAX_OPERATIONS)):
        yield batch


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
