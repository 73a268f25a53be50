"""Our own certificate authority, as values.

Computes when an authority or a serving certificate is due and which authority signs. Reads no clock and no
cluster: the keeper in certificates.py passes the time and stores the result.

A new authority is published (in `bundle`) for `Lifetimes.overlap` before it signs anything, and an old one
stays published until it expires, so clients that hold either bundle accept either serving certificate.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATE = timedelta(hours=1)
"""Certificates start this long before they are made: the API server's clock may be behind ours."""

_KEY = re.compile(rb"-----BEGIN PRIVATE KEY-----.+?-----END PRIVATE KEY-----\n?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long things live. Renewal is due when a third of the life is left; `overlap` is much shorter than
    that.
    """

    authority: timedelta = timedelta(days=365)
    serving: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @property
    def expires(self) -> datetime:
        return self.certificate.not_valid_after_utc

    def issued_at(self) -> datetime:
        return self.certificate.not_valid_before_utc + BACKDATE

    def due(self, now: datetime) -> bool:
        """A third of its life is left, or less; or it lies in the future of our clock."""
        life = self.expires - self.issued_at()
        return now > self.expires - life / 3 or now < self.certificate.not_valid_before_utc


@dataclass(frozen=True, slots=True)
class Material:
    """Everything that the Secret holds. Authorities stand from the oldest to the newest."""

    authorities: tuple[Pair, ...] = ()
    serving: Pair | None = None

    @property
    def bundle(self) -> bytes:
        """The authorities to trust, in PEM."""
        return b"".join(authority.certificate_pem for authority in self.authorities)


def renew(material: Material, *, names: tuple[str, ...], now: datetime, lifetimes: Lifetimes) -> Material:
    """The material as it should be at `now`. Returns the same object when nothing is due."""
    authorities = tuple(pair for pair in material.authorities if now < pair.expires)
    # One of the future is due too, and the newest until its time comes: a fresh one beside it is enough.
    if all(pair.due(now) for pair in authorities):
        authorities = tuple(sorted((*authorities, _authority(now, lifetimes)), key=Pair.issued_at))
    signer = _signer(authorities, now, lifetimes)
    serving = material.serving
    if serving is None or serving.due(now) or not _good(serving, authorities, names):
        serving = _serving(signer, names, now, lifetimes)
    if serving is material.serving and authorities == material.authorities:
        return material
    return replace(material, authorities=authorities, serving=serving)


def _signer(authorities: tuple[Pair, ...], now: datetime, lifetimes: Lifetimes) -> Pair:
    """The newest authority that clients have had time to hear of; at the very start, the only one there
    is.
    """
    known = [pair for pair in authorities if now - pair.issued_at() >= lifetimes.overlap]
    return known[-1] if known else authorities[0]


def _good(serving: Pair, authorities: tuple[Pair, ...], names: tuple[str, ...]) -> bool:
    """For exactly these names, and signed by an authority that is still published."""
    try:
        extension = serving.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return False
    if set(extension.value.get_values_for_type(x509.DNSName)) != set(names):
        return False
    return any(_signed_by(serving, authority) for authority in authorities)


def _signed_by(serving: Pair, authority: Pair) -> bool:
    try:
        serving.certificate.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _authority(now: datetime, lifetimes: Lifetimes) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # The serial in the name keeps two generations apart: clients look issuers up by subject.
    serial = x509.random_serial_number()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"muster webhooks {serial:x}"[:64])])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _builder(name, name, key, serial, now, now + lifetimes.authority)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    return Pair(builder.sign(key, hashes.SHA256()), key)


def _serving(signer: Pair, names: tuple[str, ...], now: datetime, lifetimes: Lifetimes) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    ends = min(now + lifetimes.serving, signer.expires)
    builder = _builder(name, signer.certificate.subject, key, x509.random_serial_number(), now, ends)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(
        x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False
    )
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    return Pair(builder.sign(signer.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    serial: int,
    now: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - BACKDATE)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def to_data(material: Material) -> dict[str, bytes]:
    """The entries of the Secret."""
    data = {
        "ca.crt": material.bundle,
        "ca.key": b"".join(authority.key_pem for authority in material.authorities),
    }
    if material.serving is not None:
        data |= {"tls.crt": material.serving.certificate_pem, "tls.key": material.serving.key_pem}
    return data


def from_data(data: Mapping[str, bytes]) -> Material:
    """The material of a Secret's entries. Raises ValueError where they are damaged; an empty Secret is
    empty material.
    """
    if not data.get("ca.crt"):
        return Material()
    keys = [_key(pem) for pem in _KEY.findall(data.get("ca.key", b""))]
    by_public = {_public(key.public_key()): key for key in keys}
    authorities = []
    for certificate in x509.load_pem_x509_certificates(data["ca.crt"]):
        key = by_public.get(_public(certificate.public_key()))
        if key is None:
            raise ValueError(f"ca.key has no key for the authority {certificate.subject.rfc4514_string()}")
        authorities.append(Pair(certificate, key))
    serving = None
    if data.get("tls.crt") and data.get("tls.key"):
        certificate = x509.load_pem_x509_certificate(data["tls.crt"])
        key = _key(data["tls.key"])
        if _public(certificate.public_key()) != _public(key.public_key()):
            raise ValueError("tls.key is not the key of tls.crt")
        serving = Pair(certificate, key)
    return Material(tuple(sorted(authorities, key=Pair.issued_at)), serving)


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"a key is not an elliptic curve key but {type(key).__name__}")
    return key


def _public(key: object) -> bytes:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError(f"a certificate's key is not an elliptic curve key but {type(key).__name__}")
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
