"""Which extras of the wheel bring what a command imports and what is not installed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from muster.errors import MusterError

# Top-level module -> the extra of a command that the table gives no extras.
_EXTRAS: Final[Mapping[str, str]] = {
    "pulumi": "program",
    "pulumi_kubernetes": "program",
    "pulumi_policy": "program",
    "pulumi_aws": "eks",
    "boto3": "eks",
    "cel_expr_python": "check",
    "msgspec": "check",
    "botocore": "eks",
    "pulumi_gcp": "gke",
    "google": "gke",
    "googleapiclient": "gke",
    "google_auth_httplib2": "gke",
    "httplib2": "gke",
    "aiohttp": "local",
    "cryptography": "local",
    "packaging": "program",
    "rich": "local",
    "structlog": "controller",
}


def missing_extra(error: ModuleNotFoundError, extras: Sequence[str]) -> MusterError | None:
    """The error for a user whose installation lacks an extra; None for any other module. `extras`: what the
    command needs, as the table has it.
    """
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRAS:
        return None
    # Reads what pip recorded; most commands need none of it.
    from muster.distribution import install_command

    needed = ",".join(extras) or _EXTRAS[module]
    return MusterError(
        f"this command needs the Python package {module}, which is not installed.",
        fix=f"install what the command needs: {install_command(needed)}",
    )


@contextlib.contextmanager
def naming_extras(extras: Sequence[str]) -> Iterator[None]:
    """Turn a failed import of the block into the error that names the extras."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = missing_extra(error, extras)
        if missing is None:
            raise
        raise missing from None
