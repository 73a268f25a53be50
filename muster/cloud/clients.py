"""Clients for the APIs of AWS and Google Cloud, with limits: a timeout, a few attempts.

Google's are made from the definitions that ship with its library. The credentials are the application's own.
A library is loaded when a client is made.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from muster.errors import ExitCode, MusterError

Answer = TypeVar("Answer")
_CONNECT: Final = 5
_READ: Final = 20
_ATTEMPTS: Final = 3


class AmazonError(MusterError):
    """What AWS refused or did not answer: `code` is empty without an answer."""

    default_exit_code = ExitCode.OUTSIDE

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


def client(service: str, region: str) -> Any:
    """A client that ends: five seconds to connect, twenty to read, three attempts."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    limits = Config(
        connect_timeout=_CONNECT,
        read_timeout=_READ,
        retries={"max_attempts": _ATTEMPTS, "mode": "standard"},
    )
    try:
        return boto3.client(service, region_name=region, config=limits)
    except BotoCoreError as error:
        raise AmazonError(str(error)) from None


def from_amazon(call: Callable[[], Answer]) -> Answer:
    """What the call answers; every way to fail is an AmazonError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return call()
    except ClientError as error:
        details = error.response.get("Error", {})
        raise AmazonError(str(details.get("Message") or error), str(details.get("Code", ""))) from None
    except BotoCoreError as error:
        raise AmazonError(f"no answer: {error}") from None


_SECONDS: Final = 20
# The library tries again after 429, 5xx and broken connections, with a growing pause.
RETRIES: Final = 2
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"


class GoogleError(MusterError):
    """What Google refused or did not answer: `status` is 0 without an answer."""

    default_exit_code = ExitCode.OUTSIDE

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Google:
    """`endpoint` replaces a service's own address (by a private one, or a stand-in in tests);
    `credentials` None: the application default ones.
    """

    endpoint: str | None = None
    credentials: Any = None

    def service(self, name: str, version: str) -> Any:
        with warnings.catch_warnings():
            # Of a Python that Google stops to support in a later year: no user of a command can act on it.
            warnings.simplefilter("ignore", FutureWarning)
            import google_auth_httplib2
            import httplib2
            from googleapiclient.discovery import build

        transport = google_auth_httplib2.AuthorizedHttp(
            self.credentials or _default(), http=httplib2.Http(timeout=_SECONDS)
        )
        options = {"api_endpoint": self.endpoint} if self.endpoint else None
        return build(
            name,
            version,
            http=transport,
            client_options=options,
            static_discovery=True,
            cache_discovery=False,
        )


def _default() -> Any:
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    try:
        found, _ = google.auth.default(scopes=[_SCOPE])
    except DefaultCredentialsError:
        raise GoogleError("there are no application default credentials.") from None
    return found


def from_google(call: Callable[[], Any]) -> Any:
    """What the request answers; every way to fail is a GoogleError."""
    import httplib2
    from google.auth.exceptions import GoogleAuthError
    from googleapiclient.errors import HttpError

    try:
        return call().execute(num_retries=RETRIES)
    except HttpError as error:
        raise GoogleError(error.reason or str(error), int(error.status_code)) from None
    except (GoogleAuthError, httplib2.HttpLib2Error, OSError) as error:
        raise GoogleError(f"no answer: {error}") from None
