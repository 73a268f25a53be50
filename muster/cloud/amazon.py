"""Clients for AWS's APIs, with limits: a timeout, a few tries.

The library is loaded when a client is wanted.
"""

from collections.abc import Callable
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


def answered(call: Callable[[], Answer]) -> Answer:
    """What the call answers; every way to fail is an AmazonError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return call()
    except ClientError as error:
        details = error.response.get("Error", {})
        raise AmazonError(str(details.get("Message") or error), str(details.get("Code", ""))) from None
    except BotoCoreError as error:
        raise AmazonError(f"no answer: {error}") from None
