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
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from release.errors import ReleaseError

VARIABLE: Final = "COSIGN_PASSWORD"
"""The variable with the password of the key, as cosign calls it."""
_BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_MAKE_KEY: Final = (
    "make one: `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes256 -out release.key`"
)


def load_key(name: str) -> ec.EllipticCurvePrivateKey:
    """The private key of a PEM file: ECDSA with P-256, as `cosign verify-blob --key` expects."""
    if "://" in name:
        raise ReleaseError(
            f"--key {name}: a key of a KMS is not read here. Fix: leave --key out, and sign the finished "
            f"checksums: `cosign sign-blob --key {name} --bundle SHA256SUMS.sigstore.json SHA256SUMS`."
        )
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
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ReleaseError(f"--key {name}: is no ECDSA key with P-256. Fix: {_MAKE_KEY}.")
    return key


def sign(file: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write both forms of the signature, and the public key, beside the file."""
    content = file.read_bytes()
    signature = base64.b64encode(key.sign(content, ec.ECDSA(SHA256()))).decode()
    public = key.public_key()
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
