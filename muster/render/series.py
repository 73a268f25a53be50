"""A metric of Muster in PromQL, restricted to the series of the controller's own pods."""

from typing import Final

from muster.model import names

_OURS: Final = f'namespace="{names.SYSTEM_NAMESPACE}"'


def ours(metric: str, *matchers: str) -> str:
    """`metric{namespace="muster-system",state="running"}` of `state="running"`."""
    return f"{metric}{{{','.join((_OURS, *matchers))}}}"
