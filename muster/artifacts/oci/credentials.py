"""Credentials for a registry: the cloud's own identity, or the result of `docker login`.

Responsible for which registry uses which. A cloud's library is loaded only for its own registry.
"""

import base64
import binascii
import json
import os
import re
from pathlib import Path
from typing import Final

from muster.artifacts.oci.registry import Credentials, RegistryError

_ARTIFACT_REGISTRY: Final = re.compile(r"[a-z0-9-]+-docker\.pkg\.dev")
_ECR: Final = re.compile(r"\d{12}\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?")


def credentials_for(host: str) -> Credentials | None:
    """None without credentials: a registry may be open."""
    if _ARTIFACT_REGISTRY.fullmatch(host):
        return google()
    ecr = _ECR.fullmatch(host)
    if ecr:
        return amazon(ecr[1])
    return _docker(host)


def google() -> Credentials:
    """The token of the application default credentials, with the user name that marks a token:
    https://cloud.google.com/artifact-registry/docs/docker/authentication#token
    """
    import google.auth
    import google.auth.exceptions
    from google.auth.transport.requests import Request

    try:
        found, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
        found.refresh(Request())
    except google.auth.exceptions.GoogleAuthError as error:
        raise RegistryError(
            f"no credentials for Google Cloud: {error}. Run `gcloud auth application-default login`."
        ) from None
    return Credentials("oauth2accesstoken", str(found.token))


def amazon(region: str) -> Credentials:
    """ECR's own password of twelve hours."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    limits = Config(connect_timeout=10, read_timeout=30, retries={"max_attempts": 3, "mode": "standard"})
    try:
        answer = boto3.client("ecr", region_name=region, config=limits).get_authorization_token()
    except (BotoCoreError, ClientError) as error:
        raise RegistryError(f"no credentials for ECR in {region}: {error}. Run `aws sso login`.") from None
    token = answer["authorizationData"][0]["authorizationToken"]
    return _pair(token, source="ECR")


def _docker(host: str) -> Credentials | None:
    """From ~/.docker/config.json; a credential helper is not called."""
    folder = os.environ.get("DOCKER_CONFIG") or str(Path.home() / ".docker")
    path = Path(folder) / "config.json"
    try:
        auths = json.loads(path.read_text(encoding="utf-8")).get("auths", {})
    except (OSError, ValueError):
        return None
    encoded = auths.get(host, {}).get("auth") or auths.get(f"https://{host}", {}).get("auth")
    return _pair(encoded, source=str(path)) if encoded else None


def _pair(encoded: str, *, source: str) -> Credentials:
    try:
        user, _, secret = base64.b64decode(encoded).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise RegistryError(f"{source} has credentials that cannot be read; log in again.") from None
    return Credentials(user, secret)
