"""Admission reviews: the API server's question and the three answers to it.

A review function is pure, from one `Review` to one `Verdict`, and calls nothing. HTTP, limits and TLS are the
webhook server's; the rules are `muster.controller.kueue`'s.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal

import msgspec

from muster.controller.kube import decoding
from muster.controller.kube.resource import T

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Review(Generic[T]):
    """One question. `object` is None on DELETE, `old` is None on CREATE; `raw` and `raw_old` are the two as
    the API server sent them; `groups` are those of the user who asks.
    """

    operation: Operation
    namespace: str
    object: T | None
    old: T | None
    raw: bytes
    raw_old: bytes
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class Allow:
    """Let it pass. Each warning (at most 120 characters are shown everywhere) is printed by kubectl."""

    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deny:
    """Refuse it. The message says what is wrong, what would be allowed and how to get there."""

    message: str
    code: int = 403


@dataclass(frozen=True, slots=True)
class Patch:
    """Let it pass changed: RFC 6902 operations, such as {"op": "add", "path": "/metadata/labels/x",
    "value": "y"}.
    """

    operations: tuple[dict[str, Any], ...]


Verdict = Allow | Deny | Patch
ReviewFunction = Callable[[Review[T]], Verdict]
OnError = Literal["deny", "allow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook(Generic[T]):
    """A review function at a path.

    `on_error` is what the client gets when the function raises, or when the object does not fit `type`:
    "deny" says why, "allow" lets it pass with a warning. The webhook configuration's own failurePolicy
    covers only silence.
    """

    path: str
    type: type[T]
    review: ReviewFunction[T]
    on_error: OnError = "deny"


class _UserInfo(msgspec.Struct, frozen=True):
    groups: list[str] | None = None


ABSENT = msgspec.Raw(b"null")


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """The part of admission.k8s.io/v1 AdmissionRequest that is used here."""

    uid: str
    operation: Operation
    name: str = ""
    namespace: str = ""
    user_info: _UserInfo = _UserInfo()
    object: msgspec.Raw = ABSENT
    old_object: msgspec.Raw = ABSENT


class AdmissionReview(msgspec.Struct, frozen=True, rename="camel"):
    request: Request
    api_version: str = ""


REVIEWS: Final = msgspec.json.Decoder(AdmissionReview)


def question(request: Request, kind: type[T]) -> Review[T]:
    """The typed question of a request. Raises msgspec.MsgspecError where an object does not fit its type."""
    return Review(
        operation=request.operation,
        namespace=request.namespace,
        object=_decode(request.object, kind),
        old=_decode(request.old_object, kind),
        raw=bytes(request.object),
        raw_old=bytes(request.old_object),
        groups=frozenset(request.user_info.groups or ()),
    )


def _decode(raw: msgspec.Raw, kind: type[T]) -> T | None:
    decoder: msgspec.json.Decoder[T | None] = msgspec.json.Decoder(kind | None)  # null stands for "none"
    return decoding.decode(decoder, raw)
