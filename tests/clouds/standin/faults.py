"""What goes wrong in a stand-in cloud, on order.

The messages are those of the originals, as users report them, so that a test sees what a user would see.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """`quota`: refused at once, nothing is made. `stall`: the operation runs far beyond the provider's
    timeout, and the cloud finishes it later all the same. `broken`: it is made, in an error state, and
    becomes well when the fault is over. `denied`: the caller lacks a permission. `hang`: the operation goes
    on until the fault is over.
    """

    QUOTA = "quota"
    STALL = "stall"
    BROKEN = "broken"
    DENIED = "denied"
    HANG = "hang"


@dataclass(frozen=True, slots=True)
class Ordered:
    """A fault for the resources of one type whose name holds `name`."""

    fault: Fault
    token: str
    name: str = ""


# googleapi: as in terraform-provider-google's issues 5325 (quota) and 9461 (RUNNING_WITH_ERROR);
# AWS: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html#API_CreateNodegroup_Errors
# and https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html
_SAID: Final = {
    ("gcp", Fault.QUOTA): (
        "googleapi: Error 403: Insufficient regional quota to satisfy request: resource "
        '"NVIDIA_GPUS": request requires more than is available, quotaExceeded'
    ),
    ("gcp", Fault.STALL): "timeout while waiting for state to become 'DONE' (last state: 'RUNNING')",
    ("gcp", Fault.BROKEN): (
        '{name} was created in the error state "RUNNING_WITH_ERROR": ZONE_RESOURCE_POOL_EXHAUSTED'
    ),
    ("gcp", Fault.DENIED): "googleapi: Error 403: Required permission is missing, forbidden",
    ("aws", Fault.QUOTA): (
        "operation error: ResourceLimitExceededException: you have requested more vCPU capacity than your "
        "current vCPU limit allows (VcpuLimitExceeded)"
    ),
    ("aws", Fault.STALL): "timeout while waiting for state to become 'ACTIVE' (last state: 'CREATING')",
    ("aws", Fault.BROKEN): (
        "unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. last error: {name}: "
        "AsgInstanceLaunchFailures: Could not launch On-Demand Instances. InsufficientInstanceCapacity"
    ),
    ("aws", Fault.DENIED): "operation error: AccessDeniedException: User is not authorized to perform it",
}


def said(cloud: str, fault: Fault, name: str) -> str:
    """The message of the original."""
    return _SAID[cloud, fault].format(name=name)
