"""Errors of the API server, typed.

Maps an HTTP answer to an exception, with the API's own message. The caller decides what to do; `retry_after`
carries the delay that the server asked for, in seconds, up to a minute.
"""

from typing import Final

import msgspec

from muster.controller.kube import decoding


class Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    kind: str = ""
    causes: list[Cause] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """A metav1.Status, the body of every refusal and of a watch's ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None

    def has_cause(self, reason: str) -> bool:
        causes = (self.details.causes if self.details else None) or []
        return any(cause.reason == reason for cause in causes)


LONGEST_PAUSE: Final = 60.0
"""Seconds. Priority and fairness asks for a few; an hour from a proxy must not leave a watch deaf for it."""

STATUSES: Final = msgspec.json.Decoder(Status)


class KubeError(Exception):
    """Any failed call. `call` says which one: verb and path."""

    retry_after: float | None = None

    def __init__(self, message: str, *, call: str = "") -> None:
        super().__init__(f"{call}: {message}" if call else message)
        self.call = call


class TransportError(KubeError):
    """No answer: refused, reset, timed out, or not what the API server speaks. A write may or may not have
    happened.
    """


class ApiError(KubeError):
    """The API server answered, and the answer is no."""

    def __init__(self, status: Status, *, call: str = "", retry_after: float | None = None) -> None:
        super().__init__(f"{status.code} {status.reason}: {status.message}".strip(), call=call)
        self.status = status
        self.retry_after = None if retry_after is None else min(retry_after, LONGEST_PAUSE)


class BadRequest(ApiError):
    """400: the request itself is malformed."""


class Unauthorized(ApiError):
    """401: the credentials are not (or no longer) good."""


class Forbidden(ApiError):
    """403: RBAC, or an admission rule."""


class NotFound(ApiError):
    """404: the object, or the kind, is not there."""


class Conflict(ApiError):
    """409: a resourceVersion, uid or field-manager precondition did not hold. Read again, then decide
    again.
    """


class AlreadyExists(ApiError):
    """409: create found the name taken. Check the uid of the owner before believing that it is ours."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is compacted away. List again."""


class Invalid(ApiError):
    """422: the schema or a validation rule refuses the object."""


class TooManyRequests(ApiError):
    """429: priority and fairness, or an eviction that a disruption budget holds back."""


class ServerError(ApiError):
    """5xx: the API server, etcd or a webhook behind it is in trouble."""


BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def from_status(status: Status, *, call: str = "", retry_after: float | None = None) -> ApiError:
    """The typed error of a Status."""
    if status.reason == "AlreadyExists":
        return AlreadyExists(status, call=call, retry_after=retry_after)
    kind = BY_CODE.get(status.code, ServerError if status.code >= 500 else ApiError)
    return kind(status, call=call, retry_after=retry_after)


def from_response(code: int, body: bytes, *, call: str, retry_after: float | None) -> ApiError:
    """The typed error of an HTTP answer, also of one that a proxy wrote and that holds no Status."""
    try:
        status = decoding.decode(STATUSES, body)
    except msgspec.MsgspecError:
        status = Status(message=body[:300].decode(errors="replace"))
    if status.code != code:
        status = Status(code=code, reason=status.reason, message=status.message, details=status.details)
    if retry_after is None and status.details and status.details.retry_after_seconds:
        retry_after = float(status.details.retry_after_seconds)
    return from_status(status, call=call, retry_after=retry_after)
