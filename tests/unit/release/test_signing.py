"""A signature verifies with the public key alone, in both forms; a key that cannot sign is named at once."""

import base64
import json
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from release.errors import ReleaseError
from release.signing import VARIABLE, load_key, sign


def _write_key(file: Path, key: PrivateKeyTypes, password: str = "") -> Path:
    how = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how))
    return file


def _verifies(file: Path, signature: str) -> bool:
    raw = file.with_name("raw")
    raw.write_bytes(base64.b64decode(signature))
    asked = ["openssl", "dgst", "-sha256", "-verify", f"{file}.pub", "-signature", str(raw), str(file)]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def test_openssl_verifies_both_forms_and_no_other_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "hunter2")
    key = _write_key(tmp_path / "release.key", ec.generate_private_key(ec.SECP256R1()), "hunter2")
    checksums = tmp_path / "SHA256SUMS"
    checksums.write_text("0  a\n")
    sign(checksums, load_key(str(key)))
    bundle = json.loads((tmp_path / "SHA256SUMS.sigstore.json").read_text())
    signatures = [(tmp_path / "SHA256SUMS.sig").read_text(), bundle["messageSignature"]["signature"]]
    assert [_verifies(checksums, each) for each in signatures] == [True, True]
    checksums.write_text("1  a\n")
    assert [_verifies(checksums, each) for each in signatures] == [False, False]


def test_a_key_that_cannot_sign_is_named_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    other = _write_key(tmp_path / "rsa", rsa.generate_private_key(public_exponent=65537, key_size=2048))
    locked = _write_key(tmp_path / "locked", ec.generate_private_key(ec.SECP256R1()), "hunter2")
    cosign = tmp_path / "cosign.key"
    cosign.write_text("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n")
    for name, why in (
        (other, "no ECDSA key with P-256"),
        (locked, f"set {VARIABLE}"),
        (cosign, "which only cosign reads"),
        (tmp_path / "gone", "cannot be read"),
        ("gcpkms://projects/p", "cosign sign-blob --key gcpkms://projects/p"),
    ):
        with pytest.raises(ReleaseError) as refused:
            load_key(str(name))
        assert why in str(refused.value)
