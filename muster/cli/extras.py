"""Which extra of the wheel brings a package that a command imports and that is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.errors import MusterError

# Top-level module -> extra. One extra is enough for the command, even where several have the package.
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
    "httpx2": "local",
    "lightkube": "local",
    "packaging": "local",
    "rich": "local",
    "structlog": "controller",
}


def missing_extra(error: ModuleNotFoundError) -> MusterError | None:
    """The error for a user whose installation lacks an extra; None for any other module."""
    module = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(module)
    if extra is None:
        return None
    return MusterError(
        f"this command needs the Python package {module}, which is not installed.",
        fix=f"install the extra that has it: pip install 'muster[{extra}]'.",
    )
