"""A repository in an OCI registry: query, push, fetch; and the HTTP calls that this takes.

Responsible for the calls of https://github.com/opencontainers/distribution-spec/blob/main/spec.md that Muster
needs, and for authentication. A call has a few attempts (no answer, "too many requests", "unavailable"), a
timeout that ends a stalled transfer and not a large one, and an error that names a remedy. Credentials never
follow a redirect to another host.
"""

import base64
import binascii
import hashlib
import io
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

import yaml

from muster.errors import ExitCode, MusterError

TIMEOUT: Final = 30.0
TRIES: Final = 4
_AGAIN: Final = frozenset({429, 500, 502, 503, 504})
# Doubled at each try: 0.5, 1, 2 seconds.
_FIRST_PAUSE: Final = 0.5


class UnreachableError(MusterError):
    """A host did not answer after all attempts. The message names the host and the cause."""

    default_exit_code = ExitCode.OUTSIDE


@dataclass(frozen=True, slots=True)
class Answer:
    """`headers` with small names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """How calls are made. `pause` is the first wait between tries."""

    timeout: float = TIMEOUT
    tries: int = TRIES
    pause: float = _FIRST_PAUSE
    _opener: urllib.request.OpenerDirector = field(
        default_factory=lambda: urllib.request.build_opener(_SameHost()), repr=False
    )

    def call(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """The answer, whatever its status; UnreachableError when there is none."""
        return self.again(
            lambda: self.once(method, url, headers=headers, body=body), host=urlsplit(url).netloc
        )

    def again(self, attempt: Callable[[], Answer], *, host: str) -> Answer:
        """The answer of `attempt`, which is retried as a whole and makes its calls by `once`."""
        for left in reversed(range(self.tries)):
            try:
                answer = attempt()
            except OSError as error:  # URLError, timeouts and broken connections among them
                if not left:
                    reason = getattr(error, "reason", error)
                    raise UnreachableError(
                        f"{host} does not answer ({reason}), after {self.tries} tries of "
                        f"{self.timeout:.0f} s.",
                        fix="check the name, the network and its proxy.",
                    ) from error
            else:
                if answer.status not in _AGAIN or not left:
                    return answer
            time.sleep(self.pause * 2 ** (self.tries - 1 - left))
        raise AssertionError("unreachable: the last try answers or raises")

    def once(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """One attempt. Raises OSError when the host does not answer."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise UnreachableError(f"{url} is no web address.")
        sent_headers = dict(headers or {})
        if body is not None:
            sent_headers["Content-Length"] = str(len(body))
        # As a file it goes in blocks, and the timeout is one block's; of bytes it would be that of them all
        # (https://docs.python.org/3/library/socket.html#socket.socket.sendall).
        sent = None if body is None else io.BytesIO(body)
        request = urllib.request.Request(url, data=sent, headers=sent_headers, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=self.timeout) as found:
                return Answer(found.status, _small(found.headers), found.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return Answer(refused.code, _small(refused.headers), refused.read())


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Registries redirect blobs to other hosts, which must not see our credentials."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        fresh = super().redirect_request(req, fp, code, msg, headers, newurl)
        if fresh is not None and urlsplit(newurl).netloc != urlsplit(req.full_url).netloc:
            fresh.remove_header("Authorization")
        return fresh


def _small(headers: Any) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in headers.items()}


INDEX: Final = "application/vnd.oci.image.index.v1+json"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_ACCEPT: Final = ", ".join(
    (
        INDEX,
        MANIFEST,
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_CHALLENGE: Final = re.compile(r'(\w+)="([^"]*)"')


class RegistryError(MusterError):
    """A registry refused a request. The message has the request, the answer and a remedy."""

    default_exit_code = ExitCode.OUTSIDE


@dataclass(frozen=True, slots=True)
class Credentials:
    """`secret` is a password or a token of the cloud; it is never printed."""

    user: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Repository:
    """`host` with its port, `path` within it."""

    host: str
    path: str

    @classmethod
    def of(cls, text: str) -> "Repository":
        """From `host/path`, with or without `oci://`; RegistryError when there is no host."""
        host, _, path = text.removeprefix("oci://").partition("/")
        if (
            not path
            or "//" in path
            or path.startswith("/")
            or not ("." in host or ":" in host or host == "localhost")
        ):
            raise RegistryError(
                f"{text!r} is not a repository.",
                fix="write a host and a path, such as registry.example/gang-admission.",
                exit_code=ExitCode.UNUSABLE,
            )
        return cls(host, path.rstrip("/"))

    def __str__(self) -> str:
        return f"{self.host}/{self.path}"

    @property
    def url(self) -> str:
        """Without TLS on loopback, as all registry clients do."""
        name = self.host.partition(":")[0]
        scheme = "http" if name in ("localhost", "127.0.0.1") else "https"
        return f"{scheme}://{self.host}/v2/{self.path}"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass(slots=True)
class Registry:
    """One repository. A refusal is a RegistryError, silence is UnreachableError."""

    repository: Repository
    credentials: Credentials | None = None
    web: Web = field(default_factory=Web)
    _token: str | None = field(default=None, repr=False)

    def has_manifest(self, reference: str) -> bool:
        return self._there("HEAD", f"manifests/{reference}", {"Accept": _ACCEPT})

    def manifest(self, reference: str) -> bytes:
        """The bytes of a manifest or index, checked where the reference is a digest."""
        found = self._expect(self._call("GET", f"manifests/{reference}", {"Accept": _ACCEPT}), 200).body
        return self._checked(found, reference)

    def referrers(self, subject: str) -> list[dict[str, Any]]:
        """The manifests whose subject is this digest. Empty where the registry does not support the query."""
        answer = self._call("GET", f"referrers/{subject}", {"Accept": INDEX})
        if answer.status == 404:
            return []
        listed: list[dict[str, Any]] = json.loads(self._expect(answer, 200).body).get("manifests") or []
        return listed

    def knows_referrers(self, subject: str) -> bool:
        return self._there("GET", f"referrers/{subject}", {"Accept": INDEX})

    def blob(self, digest: str) -> bytes:
        return self._checked(self._expect(self._call("GET", f"blobs/{digest}"), 200).body, digest)

    def push_blob(self, content: bytes) -> str:
        """Push a blob that the registry does not have yet, and return its digest."""
        digest = digest_of(content)
        if self._there("HEAD", f"blobs/{digest}"):
            return digest
        # Retried from the beginning: an upload that broke accepts no second PUT.
        self._expect(self.web.again(lambda: self._upload(content, digest), host=self.repository.host), 201)
        return digest

    def push_manifest(self, content: bytes, media_type: str, *, tag: str | None = None) -> str:
        """Push a manifest and return its digest. Without a tag it is found only by its digest."""
        digest = digest_of(content)
        answer = self._call("PUT", f"manifests/{tag or digest}", {"Content-Type": media_type}, content)
        self._expect(answer, 201)
        return digest

    def _upload(self, content: bytes, digest: str) -> Answer:
        """One attempt: the answer to the upload, or the refusal to start it."""
        url = f"{self.repository.url}/blobs/uploads/"
        begun = self._send("POST", url, None, b"", call=self.web.once)
        if begun.status != 202:
            return begun
        place = urljoin(url, begun.headers["location"])
        place += ("&" if "?" in place else "?") + urlencode({"digest": digest})
        headers = {"Content-Type": "application/octet-stream"}
        return self._send("PUT", place, headers, content, call=self.web.once)

    def _there(self, method: str, path: str, headers: dict[str, str] | None = None) -> bool:
        answer = self._call(method, path, headers)
        if answer.status == 404:
            return False
        return self._expect(answer, 200).status == 200

    def _checked(self, content: bytes, reference: str) -> bytes:
        if reference.startswith("sha256:") and digest_of(content) != reference:
            raise RegistryError(
                f"{self.repository}@{reference}: the content has digest {digest_of(content)}."
            )
        return content

    def _expect(self, answer: Answer, *statuses: int) -> Answer:
        if answer.status in statuses:
            return answer
        raise RegistryError(
            f"{self.repository}: the registry answered {answer.status}{_describe_refusal(answer)}"
        )

    def _call(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        return self._send(method, f"{self.repository.url}/{path}", headers, body, call=self.web.call)

    def _send(
        self,
        method: str,
        url: str,
        headers: dict[str, str] | None,
        body: bytes | None,
        *,
        call: Callable[..., Answer],
    ) -> Answer:
        answer = call(method, url, headers={**(headers or {}), **self._pass()}, body=body)
        challenge = answer.headers.get("www-authenticate", "")
        if answer.status != 401 or not challenge.lower().startswith("bearer "):
            return answer
        self._token = self._fetch_token(dict(_CHALLENGE.findall(challenge)))
        return call(method, url, headers={**(headers or {}), **self._pass()}, body=body)

    def _pass(self) -> dict[str, str]:
        if self._token:
            return {"Authorization": f"Bearer {self._token}"}
        return _basic(self.credentials) if self.credentials else {}

    def _fetch_token(self, challenge: dict[str, str]) -> str:
        """A token for this repository, from the address in the registry's challenge."""
        asked: dict[str, str] = {key: challenge[key] for key in ("service", "scope") if key in challenge}
        url = f"{challenge.get('realm', '')}?{urlencode(asked)}"
        headers = _basic(self.credentials) if self.credentials else {}
        answer = self._expect(self.web.call("GET", url, headers=headers), 200)
        document: dict[str, Any] = json.loads(answer.body)
        return str(document.get("token") or document.get("access_token") or "")


def _basic(credentials: Credentials) -> dict[str, str]:
    pair = f"{credentials.user}:{credentials.secret}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


_FIXES: Final = {
    401: "; log in (gcloud auth application-default login, aws sso login, or docker login).",
    403: "; your account may not do this there: see docs/runbooks for the roles.",
    404: "; there is no such repository or image.",
}


def _describe_refusal(answer: Answer) -> str:
    """The registry's own message, and a remedy."""
    try:
        errors = json.loads(answer.body).get("errors") or [{}]
        said = f" ({errors[0].get('code', '')}: {errors[0].get('message', '')})"
    except (ValueError, AttributeError, TypeError):
        said = ""
    return said + _FIXES.get(answer.status, "; try again, or ask the registry's operator.")


# Credentials for a registry: the cloud's own identity, or the result of `docker login`.
# A cloud's library is loaded only for its own registry.

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


# A Helm chart's archive: from an OCI registry, or from a repository with an index.
#
# Responsible for finding the archive of a version and for comparing a registry's answer with its digest.

OCI: Final = "oci://"
CHART_LAYER: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def archive(chart: str, version: str, *, home: str, web: Web) -> bytes:
    """`home`: `oci://host/path`, or the address of a repository. RegistryError or UnreachableError where it
    cannot be had.
    """
    if home.startswith(OCI):
        return _from_registry(chart, version, home, web)
    return _from_index(chart, version, home, web)


def _from_registry(chart: str, version: str, home: str, web: Web) -> bytes:
    repository = Repository.of(f"{home.rstrip('/')}/{chart}")
    registry = Registry(repository, credentials_for(repository.host), web)
    # A tag has no plus sign; Helm writes an underscore for it.
    manifest = json.loads(registry.manifest(version.replace("+", "_")))
    layers = [layer for layer in manifest.get("layers", ()) if layer["mediaType"] == CHART_LAYER]
    if len(layers) != 1:
        raise RegistryError(f"{repository}:{version} is no Helm chart.")
    return registry.blob(layers[0]["digest"])


def _from_index(chart: str, version: str, home: str, web: Web) -> bytes:
    base = home.rstrip("/") + "/"
    index = yaml.safe_load(_get(urljoin(base, "index.yaml"), web))
    listed: list[dict[str, Any]] = (index.get("entries") or {}).get(chart) or []
    found = next((each for each in listed if each.get("version") == version), None)
    if found is None:
        raise RegistryError(f"{home} lists no {chart} {version}.")
    content = _get(urljoin(base, found["urls"][0]), web)
    if found.get("digest") and digest_of(content) != f"sha256:{found['digest'].removeprefix('sha256:')}":
        raise RegistryError(f"{chart} {version}: the archive is not what {home} lists.")
    return content


def _get(url: str, web: Web) -> bytes:
    answer = web.call("GET", url)
    if answer.status != 200:
        raise RegistryError(f"{url} answers {answer.status}; check the address, or name a mirror.")
    return answer.body
