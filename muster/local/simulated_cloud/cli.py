"""Breaks the cloud on purpose: `fault POOL KIND`, `faults list|clear`, `capacity POOL N`.

Writes the ConfigMap `muster-plane/faults` with the caller's own credentials;
the autoscaler reads it within a moment. `register` mounts the commands under
another parser.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from muster.local.quantities import rfc3339_micro, seconds
from muster.local.simulated_cloud import names
from muster.local.simulated_cloud.api import MERGE, Access, Api, ApiError
from muster.local.simulated_cloud.faults import ANY_POOL, FaultKind

_SPACE: Final = f"/api/v1/namespaces/{names.NAMESPACE}/configmaps"
_KEPT: Final = ("seed", "capacity")
_MEANING: Final = {
    FaultKind.STOCK_OUT: "no capacity: requests fail; --wait: they wait for ever",
    FaultKind.PARTIAL: "--missing nodes (1) fewer than promised, and no word about it",
    FaultKind.DELAY: "nodes come --by (60s) later",
    FaultKind.STAGGER: "nodes come --by (60s) after the booking of a sibling is over",
    FaultKind.REVOKE: "provisioned nodes are taken back",
    FaultKind.EXPIRE: "bookings end at once",
    FaultKind.SILENCE: "no answer of any sort",
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m muster.local.autoscaler.cli", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    register(parser.add_subparsers(required=True))
    arguments = parser.parse_args(argv)
    return run(arguments, arguments.kubeconfig)


def register(commands: Any) -> None:
    """Adds the commands to an argparse subparsers action; `run` carries one out."""
    kinds = "\n".join(f"  {kind:10} {meaning}" for kind, meaning in _MEANING.items())
    fault = commands.add_parser(
        "fault",
        help="break a pool of the simulated cloud",
        description=f"kinds:\n{kinds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fault.add_argument("pool", help=f"a pool, or '{ANY_POOL}' for every one")
    fault.add_argument("kind", choices=[str(kind) for kind in FaultKind], metavar="KIND")
    fault.add_argument("--count", type=_positive, help="hit this many requests, then no more")
    fault.add_argument("--for", dest="duration", type=_duration, metavar="60s", help="of the cloud's time")
    fault.add_argument("--after", type=_duration, metavar="10s", help="begin only then")
    fault.add_argument("--by", type=_duration, metavar="60s", help="for delay and stagger")
    fault.add_argument("--missing", type=_positive, help="for partial: nodes that never come")
    fault.add_argument("--wait", action="store_true", help="for stock-out: wait for ever instead of failing")
    fault.set_defaults(autoscaler=_add_fault)
    faults = commands.add_parser("faults", help="show or clear the script of faults")
    faults.add_argument("what", choices=["list", "clear"])
    faults.set_defaults(autoscaler=_faults)
    capacity = commands.add_parser("capacity", help="set what the cloud has in stock of a pool")
    capacity.add_argument("pool")
    capacity.add_argument("nodes", type=_count)
    capacity.set_defaults(autoscaler=_capacity)


def run(arguments: argparse.Namespace, kubeconfig: Path) -> int:
    """Carries out a parsed command; 0, or 1 with one line on stderr."""
    try:
        asyncio.run(_with_api(arguments, kubeconfig))
    except ApiError as error:
        fix = (
            "is the local cluster up? `muster-plane` is made when it boots"
            if error.status == 404
            else "check the kubeconfig"
        )
        print(f"{error}; {fix}", file=sys.stderr)
        return 1
    except (OSError, aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
        print(
            f"{kubeconfig}: {error!r}; is the local cluster up, and is this its kubeconfig?", file=sys.stderr
        )
        return 1
    return 0


async def _with_api(arguments: argparse.Namespace, kubeconfig: Path) -> None:
    async with Api(Access.read(kubeconfig)) as api:
        await arguments.autoscaler(api, arguments)


async def _add_fault(api: Api, arguments: argparse.Namespace) -> None:
    if arguments.pool != ANY_POOL:
        await _check_pool(api, arguments.pool)
    now = time.time()
    entry = {
        "pool": arguments.pool,
        "kind": arguments.kind,
        "at": rfc3339_micro(now),
        "count": arguments.count,
        "for": arguments.duration,
        "after": arguments.after,
        "by": arguments.by,
        "missing": arguments.missing,
        "mode": "wait" if arguments.wait else None,
    }
    name = f"{int(now * 1000)}-{arguments.kind}"
    text = json.dumps({key: value for key, value in entry.items() if value is not None})
    await _patch(api, {name: text})
    print(f"{name}: {text}")


async def _faults(api: Api, arguments: argparse.Namespace) -> None:
    data = await _data(api)
    if arguments.what == "list":
        for name in sorted(data):
            print(f"{name}: {data[name]}")
        return
    await _patch(api, dict.fromkeys([name for name in data if name not in _KEPT]))


async def _capacity(api: Api, arguments: argparse.Namespace) -> None:
    await _check_pool(api, arguments.pool)
    stock = yaml.safe_load((await _data(api)).get("capacity", "{}")) or {}
    await _patch(api, {"capacity": json.dumps({**stock, arguments.pool: arguments.nodes})})
    print(f"{arguments.pool}: {arguments.nodes} in stock")


async def _check_pool(api: Api, pool: str) -> None:
    config = await api.call("GET", f"{_SPACE}/{names.POOLS_CONFIG}")
    entries = yaml.safe_load((config.get("data") or {}).get(names.POOLS_KEY, "{}")).get("pools") or []
    known = [str(entry["name"]) for entry in entries if entry.get("enabled", True)]
    if pool not in known:
        raise ValueError(f"pool {pool!r} is not offered; offered are {', '.join(known)}")


async def _data(api: Api) -> dict[str, str]:
    return (await api.call("GET", f"{_SPACE}/{names.FAULTS_CONFIG}")).get("data") or {}


async def _patch(api: Api, data: dict[str, Any]) -> None:
    await api.call("PATCH", f"{_SPACE}/{names.FAULTS_CONFIG}", {"data": data}, content_type=MERGE)


def _duration(text: str) -> str:
    try:
        seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number from 1")
    return int(text)


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number from 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
