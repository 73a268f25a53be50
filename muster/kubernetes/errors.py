"""What a Kubernetes API server refuses, and that none answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.errors import ExitCode, MusterError
from muster.printable import sanitize_line


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field that another manager holds."""

    manager: str
    path: str


class ApiError(MusterError):
    """The API server's refusal; `text` and `str()` are its own words, `message` names the `request` too."""

    default_exit_code = ExitCode.OUTSIDE

    def __init__(self, status: int, raw: bytes, *, request: str = "") -> None:
        body, plain = _status_body(raw)
        words = str(body.get("message") or "")
        self.status = status
        self.reason = str(body.get("reason") or "")
        self.text = words or plain or f"HTTP {status}"
        self.causes = [dict(each) for each in (body.get("details") or {}).get("causes") or ()]
        quoted = f": {sanitize_line(words, longest=400)}" if words else ""
        super().__init__(f"{request}: answered {status}{quoted}." if request else self.text)
        self.args = (self.text,)

    @property
    def conflicts(self) -> list[Conflict]:
        """Whose fields stood in the way of a server-side apply."""
        return [
            Conflict(_manager(str(each.get("message", ""))), str(each.get("field", "")))
            for each in self.causes
            if each.get("reason") == "FieldManagerConflict"
        ]

    @property
    def webhook_down(self) -> bool:
        """A webhook that cannot be reached, as opposed to one that denies."""
        return (
            self.status == 500
            and "failed calling webhook" in self.text
            and "denied the request" not in self.text
        )

    @property
    def terminating(self) -> bool:
        return any(each.get("reason") == "NamespaceTerminating" for each in self.causes)

    @property
    def already_exists(self) -> bool:
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def quota_unknown(self) -> bool:
        """A ResourceQuota whose status does not cover the object's kind yet."""
        return self.status == 403 and "status unknown for quota" in self.text

    @property
    def quota_exceeded(self) -> bool:
        return self.status == 403 and "exceeded quota" in self.text

    @property
    def passing(self) -> bool:
        return self.status in (429, 502, 503, 504) or "etcdserver: request timed out" in self.text


class UnreachableError(MusterError):
    """No server answers at the cluster's address."""

    default_exit_code = ExitCode.OUTSIDE


def _manager(message: str) -> str:
    """`conflict with "kubectl-edit" using v1` -> kubectl-edit."""
    return message.split('"')[1] if message.count('"') >= 2 else message


def _status_body(raw: bytes) -> tuple[Mapping[str, Any], str]:
    """The Status, and the text of what is none."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return {}, raw[:200].decode(errors="replace").strip()
    return (body if isinstance(body, dict) else {}), ""
