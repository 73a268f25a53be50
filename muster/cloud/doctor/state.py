"""Pulumi's state and secrets: the backend, its lock, the secrets provider.

Responsible for what is suitable for a cluster in a cloud. Reads files and lists the locks; never removes a
lock.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import yaml

from muster.cloud.clients import Google, client, from_amazon, from_google
from muster.cloud.doctor.findings import Finding, State, failed, passed
from muster.local.pulumi_locks import PROJECT, locks_of
from muster.model.clusters import Cluster

_KMS: Final = ("gcpkms://", "awskms://")


@dataclass(frozen=True, slots=True, kw_only=True)
class PulumiState:
    """`backend` is the URL that Pulumi is logged in to; empty when it is not logged in."""

    stack: str
    file: Path
    backend: str


def read_backend_url(environment: Mapping[str, str] | None = None) -> str:
    """The backend's URL: from the environment, or else from the file that `pulumi login` wrote."""
    found = os.environ if environment is None else environment
    if found.get("PULUMI_BACKEND_URL"):
        return found["PULUMI_BACKEND_URL"]
    home = found.get("PULUMI_HOME") or str(Path.home() / ".pulumi")
    try:
        current = json.loads((Path(home) / "credentials.json").read_text(encoding="utf-8")).get("current")
    except (OSError, ValueError):
        return ""
    return str(current or "")


def check_backend(where: PulumiState, cluster: Cluster) -> Iterator[Finding]:
    """Whether Pulumi is logged in, to a backend that outlives this machine."""
    make = (
        "run `pulumi login` with a backend of your own"
        if not cluster.is_ours
        else f"run `muster backend create {where.stack}` and the two commands that it prints"
    )
    if not where.backend and shutil.which("pulumi") is None:
        yield failed("backend", "the Pulumi CLI is not on PATH", "install it, and then " + make)
    elif not where.backend:
        yield failed("backend", "Pulumi is not logged in", make)
    elif where.backend.startswith("file://") and cluster.is_ours:
        yield failed(
            "backend", f"{where.backend}: the state of a cloud cluster would only exist on this machine", make
        )
    else:
        yield passed("backend", where.backend)


def check_lock(where: PulumiState, *, google: Google | None = None) -> Iterator[Finding]:
    """Whether an update holds the lock. Pulumi's own service manages its locks itself."""
    lister = _LISTERS.get(urlsplit(where.backend).scheme)
    if lister is None:
        return
    held = lister(where, google or Google())
    if held:
        message = f"{len(held)} lock on stack {where.stack}: {held[0]}"
        fix = f"wait for the update that holds it; if it crashed: pulumi cancel --stack {where.stack}"
        yield failed("lock", message, fix)
    else:
        yield passed("lock", "no update holds it")


def check_secrets(where: PulumiState, cluster: Cluster) -> Iterator[Finding]:
    """Which key encrypts the stack's secrets."""
    written = yaml.safe_load(where.file.read_text(encoding="utf-8")) or {}
    provider = str(written.get("secretsprovider") or "")
    make = (
        f"run `muster backend create {where.stack}`, then `pulumi stack change-secrets-provider` with its key"
    )
    if provider.startswith(_KMS):
        yield passed("secrets", provider)
    elif not cluster.is_ours:
        yield passed("secrets", "a passphrase or Pulumi's own service")
    elif written.get("encryptionsalt"):
        yield failed("secrets", "a passphrase, which everyone who deploys has to know", make)
    else:
        message = "the stack has no secrets provider (Pulumi's own service, or not created yet)"
        yield Finding("secrets", State.UNKNOWN, message, make)


def _in_file(where: PulumiState, _: Google) -> list[str]:
    held = locks_of(Path(urlsplit(where.backend).path), stack=where.stack)
    return [f"{lock}{', which has ended without removing it' if lock.is_left_over else ''}" for lock in held]


def _in_google(where: PulumiState, google: Google) -> list[str]:
    objects = google.service("storage", "v1").objects()
    bucket, prefix = urlsplit(where.backend).netloc, _prefix(where)
    return [
        each["name"]
        for each in from_google(lambda: objects.list(bucket=bucket, prefix=prefix)).get("items", [])
    ]


def _in_amazon(where: PulumiState, _: Google) -> list[str]:
    place = urlsplit(where.backend)
    region = dict(pair.partition("=")[::2] for pair in place.query.split("&")).get("region") or "us-east-1"
    s3 = client("s3", region)
    answer = from_amazon(lambda: s3.list_objects_v2(Bucket=place.netloc, Prefix=_prefix(where)))
    return [str(each["Key"]) for each in answer.get("Contents", [])]


def _prefix(where: PulumiState) -> str:
    return f".pulumi/locks/organization/{PROJECT}/{where.stack}/"


_LISTERS: Final[Mapping[str, Callable[[PulumiState, Google], list[str]]]] = {
    "file": _in_file,
    "gs": _in_google,
    "s3": _in_amazon,
}
