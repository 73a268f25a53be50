"""Signs with a key that AWS' or Google's KMS keeps, by cosign's address of it.

Source: sigstore/cosign, doc/cosign_sign-blob.md at 2acc28b2, read 2026-11-29
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable
from typing import Final

from muster.cloud import clients
from release.errors import ReleaseError

Found = tuple[bytes, Callable[[bytes], bytes]]
"""The public key, and what makes the signature of a content in DER."""
_AMAZON: Final = re.compile(r"awskms:///(.+)")
_GOOGLE: Final = re.compile(
    r"gcpkms://(projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+)/versions/(\d+)"
)


def find_key(address: str, *, google: clients.Google) -> Found:
    """The public key is PEM from Google, and DER from AWS. MusterError where there is none."""
    if at := _AMAZON.fullmatch(address):
        return _of_amazon(at[1])
    if at := _GOOGLE.fullmatch(address):
        return _of_google(f"{at[1]}/cryptoKeyVersions/{at[2]}", google)
    raise ReleaseError(
        f"--key {address}: is neither awskms:///ID nor gcpkms://projects/.../cryptoKeys/KEY/versions/1. Fix: "
        "leave --key out, and sign the finished checksums: "
        f"`cosign sign-blob --key {address} --bundle SHA256SUMS.sigstore.json SHA256SUMS`."
    )


def _of_amazon(key: str) -> Found:
    region = key.split(":")[3] if key.startswith("arn:") else os.environ.get("AWS_REGION", "")
    if not region:
        raise ReleaseError(f"--key awskms:///{key}: names no region. Fix: set AWS_REGION.")
    kms = clients.client("kms", region)

    def sign(content: bytes) -> bytes:
        digest = hashlib.sha256(content).digest()
        asked = {"KeyId": key, "MessageType": "DIGEST", "SigningAlgorithm": "ECDSA_SHA_256"}
        return bytes(clients.from_amazon(lambda: kms.sign(Message=digest, **asked))["Signature"])

    return bytes(clients.from_amazon(lambda: kms.get_public_key(KeyId=key))["PublicKey"]), sign


def _of_google(key: str, google: clients.Google) -> Found:
    rings = google.service("cloudkms", "v1").projects().locations().keyRings()
    versions = rings.cryptoKeys().cryptoKeyVersions()

    def sign(content: bytes) -> bytes:
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        body = {"digest": {"sha256": digest}}
        signed = clients.from_google(lambda: versions.asymmetricSign(name=key, body=body))
        return base64.b64decode(signed["signature"])

    return clients.from_google(lambda: versions.getPublicKey(name=key))["pem"].encode(), sign
