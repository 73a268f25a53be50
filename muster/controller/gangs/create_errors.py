"""Errors of the API server when an object of a gang is created.

A rejection ends the attempt: the same object would be rejected again while the gang holds quota without
progress, and its user would not read why. reasons.py decides whether a later attempt may succeed. Answers
that are no rejection (429, no answer, for a while what `Startup` recognises) are left to the work queue's
backoff.
"""

import re
from typing import Final

from muster.controller.gangs.assembly import AttemptFailed, Unsatisfiable
from muster.controller.gangs.reasons import Outcome, classify_rejection
from muster.controller.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
)

_WEBHOOK: Final = re.compile(r'admission webhook ".*" denied|failed calling webhook')
"""Of k8s.io/apiserver 0.36, pkg/admission/plugin/webhook/errors and pkg/util/webhook: with whatever code the
webhook has chosen, and 500 where it cannot be reached and may not be left out.
"""

_UNASKED: Final = re.compile(
    r"does not support dry run|cannot create resource|"
    r"ValidatingAdmissionPolicy 'muster-(controller-)?pods'"
)
"""NewDryRunUnsupportedErr of k8s.io/apiserver 0.36, pkg/admission/plugin/webhook/errors; forbiddenMessage in
endpoints/handlers/responsewriters; and our own policies, of which the newest let dry runs pass.
"""


def is_rejection(error: ApiError) -> bool:
    """Whether the object was rejected, or cannot be judged or kept: its namespace or its kind is gone, a
    webhook cannot be reached, the server fails.
    """
    judged = isinstance(error, BadRequest | Forbidden | Invalid | NotFound | ServerError)
    return judged or _WEBHOOK.search(error.status.message) is not None


def is_no_verdict(error: ApiError) -> bool:
    """Whether the dry run of a pod failed in a way that says nothing of the pod: a webhook with side effects
    is left out of dry runs, and an account or a policy from before this release does not let us ask. Its
    gang goes on.
    """
    return isinstance(error, AlreadyExists) or _UNASKED.search(error.status.message) is not None


class CreateRejected(Exception):
    """The object was judged and not created. `attempt`: for which one; `message`: the judge's own words."""

    def __init__(self, kind: str, *, attempt: str, reason: str, message: str) -> None:
        super().__init__(f"{kind} {reason}: {message}")
        self.kind, self.attempt, self.reason, self.message = kind, attempt, reason, message


class GateKept(CreateRejected):
    """The gate of a pod could not be removed; those of others of its gang may be gone."""


class NameTaken(CreateRejected):
    """An object with our name has another owner; a person has to resolve it."""

    def __init__(self, kind: str, *, attempt: str, message: str) -> None:
        super().__init__(kind, attempt=attempt, reason="NameTaken", message=message)


class Altered(CreateRejected):
    """A webhook or a policy of the cluster has changed what we set; a person has to resolve it."""

    def __init__(self, kind: str, *, attempt: str, message: str) -> None:
        super().__init__(kind, attempt=attempt, reason="Altered", message=message)


def failure_of(rejected: CreateRejected) -> Unsatisfiable | AttemptFailed:
    """How the attempt ends."""
    outcome, summary = classify_rejection(rejected.reason, rejected.message)
    what = f"{summary}: {str(rejected)[:600]}"
    return Unsatisfiable(reason=what) if outcome is Outcome.REFUSE else AttemptFailed(failure=what)
