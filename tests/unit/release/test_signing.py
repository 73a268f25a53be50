"""A signature verifies with the public key alone, in both forms; a key that cannot sign is named at once."""

import base64
import hashlib
import json
import subprocess
from pathlib import Path

import boto3
import pytest
from botocore.stub import Stubber
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from muster.cloud import clients
from release.errors import ReleaseError
from release.signing import VARIABLE, load_key, sign
from tests.unit.cloud.google_world import Routes, cloud


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


def test_a_key_in_googles_kms_signs(tmp_path: Path) -> None:
    private, place = ec.generate_private_key(ec.SECP256R1()), "projects/p/locations/global/keyRings/r"
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    checksums = tmp_path / "SHA256SUMS"
    checksums.write_text("0  a\n")
    signature = base64.b64encode(private.sign(checksums.read_bytes(), ec.ECDSA(SHA256()))).decode()
    key = f"/v1/{place}/cryptoKeys/k/cryptoKeyVersions/1"
    routes: Routes = {
        f"GET {key}/publicKey": (200, {"pem": pem.decode()}),
        f"POST {key}:asymmetricSign": (200, {"signature": signature}),
    }
    with cloud(routes) as (made, google):
        sign(checksums, load_key(f"gcpkms://{place}/cryptoKeys/k/versions/1", google=google))
    digest = base64.b64encode(hashlib.sha256(checksums.read_bytes()).digest()).decode()
    assert made.asked[-1][1] == {"digest": {"sha256": digest}}
    assert _verifies(checksums, (tmp_path / "SHA256SUMS.sig").read_text())


def test_a_key_in_amazons_kms_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private, arn = ec.generate_private_key(ec.SECP256R1()), "arn:aws:kms:eu-west-1:123456789012:key/k"
    der = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    checksums = tmp_path / "SHA256SUMS"
    checksums.write_text("0  a\n")
    content = checksums.read_bytes()
    client = boto3.client("kms", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
    monkeypatch.setattr(clients, "client", lambda *_: client)
    with Stubber(client) as kms:
        kms.add_response("get_public_key", {"PublicKey": der}, {"KeyId": arn})
        digest = hashlib.sha256(content).digest()
        asked = {"Message": digest, "MessageType": "DIGEST", "SigningAlgorithm": "ECDSA_SHA_256"}
        kms.add_response(
            "sign", {"Signature": private.sign(content, ec.ECDSA(SHA256()))}, {"KeyId": arn, **asked}
        )
        sign(checksums, load_key(f"awskms:///{arn}"))
    assert _verifies(checksums, (tmp_path / "SHA256SUMS.sig").read_text())


def test_a_key_that_cannot_sign_is_named_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in (VARIABLE, "AWS_REGION"):
        monkeypatch.delenv(variable, raising=False)
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
        ("awskms:///alias/release", "set AWS_REGION"),
    ):
        with pytest.raises(ReleaseError) as refused:
            load_key(str(name))
        assert why in str(refused.value)
