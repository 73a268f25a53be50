"""Signs the checksums of a release, in the two forms that cosign verifies.

`SHA256SUMS.sig` is the signature in base64, for `cosign verify-blob --signature` up to cosign 2 and for
OpenSSL. `SHA256SUMS.sigstore.json` is a Sigstore bundle with the same signature, for `--bundle`. Neither is
in a transparency log, so cosign asks for `--insecure-ignore-tlog`.
Source: sigstore/protobuf-specs, protos/sigstore_bundle.proto at 02044e8b, read 2026-11-29
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
    load_pem_public_key,
)

from muster.cloud.clients import Google
from release.errors import ReleaseError
from release.kms import find_key

OWN_CREDENTIALS: Final = Google()

VARIABLE: Final = "COSIGN_PASSWORD"
"""The variable with the password of the key, as cosign calls it."""
_BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_MAKE_KEY: Final = (
    "make one: `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes256 -out release.key`"
)


@dataclass(frozen=True, slots=True)
class Key:
    """`sign` makes the signature of a content with the private half, in DER."""

    public: ec.EllipticCurvePublicKey
    sign: Callable[[bytes], bytes]


def load_key(name: str, *, google: Google = OWN_CREDENTIALS) -> Key:
    """The key of a PEM file or of a KMS: ECDSA with P-256, as `cosign verify-blob --key` expects."""
    if "://" in name:
        content, sign = find_key(name, google=google)
        load = load_pem_public_key if content.startswith(b"-----") else load_der_public_key
        public = load(content)
        if not isinstance(public, ec.EllipticCurvePublicKey):
            raise _no_p256(name)
    else:
        private = _load_file(name)
        public = private.public_key()
        sign = partial(private.sign, signature_algorithm=ec.ECDSA(SHA256()))
    if not isinstance(public.curve, ec.SECP256R1):
        raise _no_p256(name)
    return Key(public, sign)


def _no_p256(name: str) -> ReleaseError:
    return ReleaseError(f"--key {name}: is no ECDSA key with P-256. Fix: {_MAKE_KEY}.")


def _load_file(name: str) -> ec.EllipticCurvePrivateKey:
    try:
        content = Path(name).read_bytes()
    except OSError as error:
        raise ReleaseError(f"--key {name}: cannot be read: {error.strerror}. Fix: {_MAKE_KEY}.") from None
    if b"SIGSTORE PRIVATE KEY" in content:
        raise ReleaseError(
            f"--key {name}: is a key in cosign's own encryption, which only cosign reads. Fix: {_MAKE_KEY}; "
            "cosign verifies with its public half."
        )
    password = os.environ.get(VARIABLE, "").encode() or None
    try:
        key = load_pem_private_key(content, password)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ReleaseError(
            f"--key {name}: cannot be decrypted or read ({error}). Fix: set {VARIABLE}, or {_MAKE_KEY}."
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise _no_p256(name)
    return key


def sign(file: Path, key: Key) -> None:
    """Write both forms of the signature, and the public key, beside the file."""
    content = file.read_bytes()
    signature = base64.b64encode(key.sign(content)).decode()
    public = key.public
    file.with_name(f"{file.name}.sig").write_text(signature, encoding="ascii")
    file.with_name(f"{file.name}.pub").write_bytes(
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    hint = hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    bundle = {
        "mediaType": _BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": base64.b64encode(hint).decode()}},
        "messageSignature": {
            "messageDigest": {
                "algorithm": "SHA2_256",
                "digest": base64.b64encode(hashlib.sha256(content).digest()).decode(),
            },
            "signature": signature,
        },
    }
    text = json.dumps(bundle, indent=1) + "\n"
    file.with_name(f"{file.name}.sigstore.json").write_text(text, encoding="ascii")
