"""The local cluster's certificate authorities, certificates and kubeconfigs.

Responsible for: the identity of every component. All are made for one local cluster, are kept in its
memory-backed run directory and are deleted with it. Names and groups are Kubernetes' own
(https://kubernetes.io/docs/setup/best-practices/certificates/).
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster.local.cluster.local_cluster import CONTEXT, KUBERNETES_SERVICE, LocalCluster

# Longer than 90 days: Kueue's cert-controller replaces a certificate that ends sooner.
_LIFETIME = datetime.timedelta(days=120)
_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_BACKDATE = datetime.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, in PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """A signing authority of the local cluster."""

    pair: Pair
    certificate: x509.Certificate
    key: _Key

    def issue(
        self, path: Path, common_name: str, *, groups: tuple[str, ...] = (), hosts: tuple[str, ...] = ()
    ) -> Pair:
        """Signs a certificate for client use and, when `hosts` are given, for serving them."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = (
            _builder(_name(common_name, groups), self.certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False
            )
        return _write(path, builder.sign(self.key, hashes.SHA256()), key)


@dataclass(frozen=True, slots=True)
class Pki:
    """All that the control plane needs; nodes and users are issued from `cluster`."""

    cluster: Authority
    front_proxy: Authority
    apiserver: Pair
    apiserver_kubelet: Pair
    front_proxy_client: Pair
    service_accounts: Pair


def create(cluster: LocalCluster) -> Pki:
    directory = cluster.pki
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    cluster_ca = authority(directory / "ca", "muster local plane")
    front_proxy = authority(directory / "front-proxy-ca", "muster local plane front proxy")
    names = (
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    )
    return Pki(
        cluster=cluster_ca,
        front_proxy=front_proxy,
        apiserver=cluster_ca.issue(
            directory / "apiserver",
            "kube-apiserver",
            hosts=(*names, "localhost", KUBERNETES_SERVICE, "127.0.0.1", cluster.address),
        ),
        apiserver_kubelet=cluster_ca.issue(
            directory / "apiserver-kubelet-client",
            "kube-apiserver-kubelet-client",
            groups=("system:masters",),
        ),
        front_proxy_client=front_proxy.issue(directory / "front-proxy-client", "front-proxy-client"),
        service_accounts=cluster_ca.issue(directory / "service-accounts", "service-accounts"),
    )


def load_authority(directory: Path, name: str) -> Authority:
    """Read an authority back, for the process that issues the nodes' certificates."""
    pair = Pair(directory / f"{name}.crt", directory / f"{name}.key")
    key = serialization.load_pem_private_key(pair.key.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{pair.key} is not an elliptic-curve key")
    return Authority(pair, x509.load_pem_x509_certificate(pair.certificate.read_bytes()), key)


def kubeconfig(path: Path, *, server: str, authority: Authority, client: Pair, user: str) -> Path:
    """Write a self-contained kubeconfig that only root can read, for the holder of a certificate."""
    proof = {
        "client-certificate-data": _base64(client.certificate),
        "client-key-data": _base64(client.key),
    }
    return _write_kubeconfig(path, server=server, authority=authority, user=user, proof=proof)


def token_kubeconfig(path: Path, *, server: str, authority: Authority, user: str, token: str) -> Path:
    """The same for a ServiceAccount outside a pod."""
    return _write_kubeconfig(path, server=server, authority=authority, user=user, proof={"token": token})


def _write_kubeconfig(
    path: Path, *, server: str, authority: Authority, user: str, proof: dict[str, str]
) -> Path:
    cluster = {"server": server, "certificate-authority-data": _base64(authority.pair.certificate)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": user, "user": proof}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": user}}],
        "current-context": CONTEXT,
    }
    # Another process may be waiting for the file: it appears whole. JSON is YAML.
    partial = path.with_name(path.name + ".partial")
    _private(partial, json.dumps(content, indent=1).encode())
    partial.replace(path)
    return path


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def authority(
    path: Path, common_name: str, *, hosts: tuple[str, ...] = (), is_rsa: bool = False
) -> Authority:
    """A new self-signed authority, in `<path>.crt` and `<path>.key`; for `hosts` it answers itself too."""
    key: _Key = ec.generate_private_key(ec.SECP256R1())
    if is_rsa:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = _name(common_name, ())
    builder = (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False
        )
    certificate = builder.sign(key, hashes.SHA256())
    return Authority(_write(path, certificate, key), certificate, key)


def _builder(subject: x509.Name, issuer: x509.Name, key: _Key) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + _LIFETIME)
    )


def _name(common_name: str, groups: tuple[str, ...]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(path: Path, certificate: x509.Certificate, key: _Key) -> Pair:
    pair = Pair(path.with_name(path.name + ".crt"), path.with_name(path.name + ".key"))
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    if isinstance(key, rsa.RSAPrivateKey):
        form = serialization.PrivateFormat.TraditionalOpenSSL
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    _private(pair.key, private)
    return pair


def _private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
