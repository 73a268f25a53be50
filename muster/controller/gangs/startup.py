"""Create errors of an API server or webhook that is still starting.

A server that answers before it has read its roles forbids every request; one that has not read its admission
plugins or quotas denies every create; so does one whose webhooks have no ready pod. Most load balancers keep
clients away until the server is ready, but a Service with a single server behind it, or an early connection,
does not. So does a server in trouble, or one on which an `up` is about to make a namespace. Such an answer is
retried for a while before it counts as a rejection of the object.
"""

import re
from collections.abc import Callable
from typing import Final

from muster.controller.kube.errors import ApiError, NotFound, ServerError

_WORDS: Final = re.compile(
    r"cannot create resource|not yet ready to handle request|status unknown for quota|failed calling webhook"
)
"""Of k8s.io/apiserver 0.36: forbiddenMessage in endpoints/handlers/responsewriters/errors.go, the wait of
admission/plugin/webhook/generic, policy/generic and namespace/lifecycle, checkRequest in
admission/plugin/resourcequota, ErrCallingWebhook in util/webhook.
"""

_DENIED: Final = re.compile(r'admission webhook ".*" denied')
"""A webhook has judged the object, with whatever code (pkg/admission/plugin/webhook/errors)."""

PATIENCE: Final = 60.0
"""Seconds. A server has read what it judges by within a few; what is missing for a minute is missing."""

_REMEMBERED: Final = 3600.0
"""Seconds, longer than any backoff: an object that is not created again is forgotten."""


class Startup:
    """Since when each object has been denied in such words. `clock`: monotonic, in seconds.

    Losing it costs a gang another minute with its quota, nothing else.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}

    def may_explain(self, name: str, error: ApiError) -> bool:
        """Whether this denial of the object `name` may be the server's and not the object's. The names of
        objects carry their attempt, so that none is denied again long after it was denied first.
        """
        words = error.status.message
        is_trouble = isinstance(error, NotFound | ServerError) and not _DENIED.search(words)
        if not (is_trouble or _WORDS.search(words)):
            return False
        now = self._clock()
        self._forget(before=now - _REMEMBERED)
        return now - self._since.setdefault(name, now) < PATIENCE

    def _forget(self, *, before: float) -> None:
        """The oldest are first: what is there keeps its place."""
        while self._since:
            oldest = next(iter(self._since))
            if self._since[oldest] >= before:
                return
            del self._since[oldest]
