"""A real API server handed out as a cloud's cluster: address and certificate in the cluster's outputs,
credentials by the cloud's own plugin.
"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.clouds.standin.serve import Clouds
from tests.clouds.standin.tables.aws_account import ACCOUNT

BIN = Path(__file__).parent / "bin"
_SECRETS = ("client-certificate", "client-key")


@dataclass(frozen=True, slots=True)
class Handed:
    """An API server: `host:port`, its certificate authority in base64, and who may come in."""

    address: str
    authority: str
    credential: dict[str, Any]

    def to(self, clouds: Clouds) -> None:
        for cloud in (clouds.gcp, clouds.aws):
            cloud.handed |= {
                "account": ACCOUNT,
                "ca": self.authority,
                "endpoint": self.address,
                "endpoint_url": f"https://{self.address}",
            }

    def environment(self, folder: Path, path: str) -> dict[str, str]:
        """What makes the stand-in plugins answer with this server's credentials."""
        file = folder / "credential.json"
        version = "client.authentication.k8s.io/v1beta1"
        content = {"apiVersion": version, "kind": "ExecCredential", "status": self.credential}
        file.write_text(json.dumps(content))
        return {"STAND_IN_CREDENTIAL": str(file), "PATH": f"{BIN}:{path}"}


# Nothing answers there: for tests that install nothing.
NOBODY = Handed("127.0.0.1:1", base64.b64encode(b"nobody").decode(), {"token": "nobody"})


def handed(kubeconfig: Path) -> Handed:
    """The server of a kubeconfig's current context."""
    config = yaml.safe_load(kubeconfig.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    return Handed(
        address=cluster["server"].removeprefix("https://"),
        authority=_data(cluster, "certificate-authority", kubeconfig.parent),
        credential={"token": user["token"]} if "token" in user else _certificate(user, kubeconfig.parent),
    )


def _certificate(user: dict[str, Any], folder: Path) -> dict[str, str]:
    certificate, key = (base64.b64decode(_data(user, name, folder)).decode() for name in _SECRETS)
    return {"clientCertificateData": certificate, "clientKeyData": key}


def _data(section: dict[str, Any], name: str, folder: Path) -> str:
    if f"{name}-data" in section:
        return str(section[f"{name}-data"])
    return base64.b64encode((folder / section[name]).read_bytes()).decode()


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)
