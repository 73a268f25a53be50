"""A metric of ours in PromQL: only what the controller's own pods say, whatever else is scraped."""

from typing import Final

from muster.model import names

_OURS: Final = f'namespace="{names.SYSTEM_NAMESPACE}"'


def ours(metric: str, *matchers: str) -> str:
    """`metric{namespace="muster-system",state="running"}` of `state="running"`."""
    return f"{metric}{{{','.join((_OURS, *matchers))}}}"
