"""Names of the objects of an attempt.

Names follow from the API alone: after a crash before the answer of a create, the same name finds the object,
and a second replica chooses the same one. Which attempt is which is each scheduler's to define.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from muster.model.names import (
    CONSUME_ANNOTATION,
    GROUP,
    OWN_PREFIX,
    PLACED_ANNOTATION,
)

ATTEMPT: Final = f"{GROUP}/attempt"
"""Label of everything that one attempt has made."""

NEEDS: Final = f"{GROUP}/needs"
"""Label of a request: a digest of where its pods may go, by its flavors when it was made."""

_DIGEST_LENGTH: Final = 24
"""96 bits: a collision among a million live requests is no concern, and names stay legible."""


def request_name(*parts: str) -> str:
    """`muster-<hash>` of owner, attempt and shape: valid as an object name, a label value and an annotation
    value.
    """
    return f"{OWN_PREFIX}{digest(*parts)}"


def template_name(request: str, pod_set: int) -> str:
    """The template of the request's n-th PodSet; never a Workload's name, by which Kueue deletes requests."""
    return f"{request}-{pod_set}"


def request_of_template(name: str) -> str:
    """The request that a template of this name was written for."""
    return name.rpartition("-")[0]


def place_of_template(name: str) -> tuple[str, int, str]:
    """A key to sort templates by: by request, then by number of the PodSet. The tenth follows the ninth."""
    return request_of_template(name), len(name), name


def trial_name(request: str, number: int) -> str:
    """The pod that is judged for the gang's n-th PodSet before this request is made. Admission policies know
    it by this name (`trial` in muster/render/tenancy/policies/shared.yaml).
    """
    return f"{request}-try-{number}"


def placeholder_name(request: str, pod_set: int, number: int) -> str:
    return f"{request}-{pod_set}-hold-{number}"


def request_of_placeholder(name: str) -> str:
    """The request that a placeholder of this name consumes."""
    return name.rpartition("-hold-")[0].rpartition("-")[0]


def number_of_placeholder(name: str) -> int:
    """Which PodSet of its request a placeholder of this name stands for."""
    number = name.rpartition("-hold-")[0].rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def promised_by(annotations: Mapping[str, str]) -> str:
    """The name of the request that a pod with these consumes; empty where it consumes none."""
    return annotations.get(CONSUME_ANNOTATION, "") or annotations.get(PLACED_ANNOTATION, "")


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGEST_LENGTH]
