"""The API server's certificate runs out and is replaced: the manager waits, trusts no other, and goes on."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from muster.local.cluster.certificates import Authority, authority
from tests.envtest.process import free_port
from tests.faults import gangs
from tests.faults.managers import Manager
from tests.faults.plane import tail
from tests.faults.proxy import Proxy
from tests.faults.stage import Stage

_DAY = timedelta(days=1)


def test_an_expired_certificate_stops_every_call_until_a_good_one_is_there(stage: Stage) -> None:
    folder, port = stage.folder, free_port()
    ours = authority(folder / "ca", "faults-ca")
    config = stage.plane.manager_kubeconfig(f"https://127.0.0.1:{port}", authority=ours.pair.certificate)
    good, expired = (_server(folder, ours, ends=datetime.now(UTC) + life) for life in (_DAY, -_DAY))
    manager = Manager(config, stage.log)
    first, second, third = (Proxy(stage.plane.server) for _ in range(3))
    with first.serving(good, port=port):
        manager.start()
        gang = stage.submit()
        stage.eventually("it has asked", lambda: gangs.requests(stage.plane))
    with second.serving(expired, port=port):
        stage.eventually("it says what is wrong", lambda: "certificate has expired" in tail(stage.log))
    assert not second.calls, "nobody was asked who could not prove who they are"
    with third.serving(good, port=port):
        stage.completes(gang)
        manager.stop()
    assert manager.exit_code == 0, "it has lived through all of it"


def _server(folder: Path, ours: Authority, *, ends: datetime) -> ssl.SSLContext:
    """A server's context, with a certificate of ours that ends then."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "faults")])
    host = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(ours.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(ends - 9 * _DAY)
        .not_valid_after(ends)
        .add_extension(x509.SubjectAlternativeName([host]), critical=False)
        .sign(ours.key, hashes.SHA256())
    )
    file = folder / f"server-{ends:%Y%m%d}.pem"
    file.touch(mode=0o600)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(secret + made.public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
