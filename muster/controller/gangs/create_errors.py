"""What the API server does not let us create for a gang.

Decides which answer ends the attempt: the same object gets the same answer again, and quota would be held
meanwhile, with nothing said. Whether a later attempt may get another one is told by the rules of reasons.py.
Leaves answers that are no judgement of the object (429, 5xx, none at all, what startup.py knows) to the
backoff of whoever asked.
"""

import re
from typing import Final

from muster.controller.gangs.assembly import AttemptFailed, Unsatisfiable
from muster.controller.gangs.reasons import Outcome, classify_rejection
from muster.controller.kube.errors import ApiError, BadRequest, Forbidden, Invalid

_WEBHOOK: Final = re.compile(r'admission webhook ".*" denied|failed calling webhook')
"""Of k8s.io/apiserver 0.36, pkg/admission/plugin/webhook/errors and pkg/util/webhook: with whatever code the
webhook has chosen, and 500 where it cannot be reached and may not be left out.
"""


def is_rejection(error: ApiError) -> bool:
    """Whether somebody has judged the object, or has to and cannot."""
    judged = isinstance(error, BadRequest | Forbidden | Invalid)
    return judged or _WEBHOOK.search(error.status.message) is not None


class CreateRejected(Exception):
    """The object was judged and not created. `attempt`: for which one; `message`: the judge's own words."""

    def __init__(self, kind: str, *, attempt: str, reason: str, message: str) -> None:
        super().__init__(f"{kind} {reason}: {message}")
        self.kind, self.attempt, self.reason, self.message = kind, attempt, reason, message


class NameTaken(CreateRejected):
    """An object with the name of ours belongs to somebody else; a person has to look."""

    def __init__(self, kind: str, *, attempt: str, message: str) -> None:
        super().__init__(kind, attempt=attempt, reason="NameTaken", message=message)


def failure_of(rejected: CreateRejected) -> Unsatisfiable | AttemptFailed:
    """How the attempt ends."""
    outcome, summary = classify_rejection(rejected.reason, rejected.message)
    what = f"{summary}: {str(rejected)[:600]}"
    return Unsatisfiable(reason=what) if outcome is Outcome.REFUSE else AttemptFailed(failure=what)
