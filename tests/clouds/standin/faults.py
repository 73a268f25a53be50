"""What goes wrong in a stand-in cloud, on order."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Fault(StrEnum):
    """`quota`: refused at once, nothing is made. `stall`: the operation runs far beyond the provider's
    timeout, and the cloud finishes it later all the same. `broken`: it is made, in an error state, and
    becomes well when the fault is over. `denied`: the caller lacks a permission.
    """

    QUOTA = "quota"
    STALL = "stall"
    BROKEN = "broken"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class Ordered:
    """A fault for the resources of one type whose name holds `name`."""

    fault: Fault
    token: str
    name: str = ""


# As users report them; each was read in the issue or pull request of GitHub that is named before it.
_SAID: Final = {
    # vanvalenlab/kiosk-console#367; with the provider's words around it:
    # kaiwaehner/hivemq-mqtt-tensorflow-kafka-realtime-iot-machine-learning-training-inference#48
    ("gcp", Fault.QUOTA): (
        "error creating NodePool: googleapi: Error 403: Insufficient regional quota to satisfy request: "
        "resource \"NVIDIA_L4_GPUS\": request requires '1.0' and is short '1.0'. project has a quota of "
        "'0.0' with '0.0' available., forbidden"
    ),
    # hashicorp/terraform-provider-google#5229
    ("gcp", Fault.STALL): (
        "timeout while waiting for state to become 'DONE' (last state: 'RUNNING', timeout: 30m0s)"
    ),
    # hashicorp/terraform-provider-google#10823
    ("gcp", Fault.BROKEN): 'NodePool {name} was created in the error state "RUNNING_WITH_ERROR"',
    # pulumi/examples#150
    ("gcp", Fault.DENIED): (
        'googleapi: Error 403: Required "container.clusters.create" permission(s) for "projects/acme"., '
        "forbidden"
    ),
    # klothoplatform/klotho#311. There it is the end of a long wait; here it is said at once.
    ("aws", Fault.QUOTA): (
        "unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. last error: {name}: "
        "AsgInstanceLaunchFailures: Could not launch On-Demand Instances. VcpuLimitExceeded - You have "
        "requested more vCPU capacity than your current vCPU limit of 0 allows for the instance bucket that "
        "the specified instance type belongs to."
    ),
    # terraform-aws-modules/terraform-aws-eks#2233
    ("aws", Fault.STALL): (
        "timeout while waiting for state to become 'ACTIVE' (last state: 'CREATING', timeout: 30m0s)"
    ),
    # hashicorp/terraform-provider-aws#39904 (the sentence), aws/containers-roadmap#2204 (the reason)
    ("aws", Fault.BROKEN): (
        "unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. last error: {name}: "
        "AsgInstanceLaunchFailures: Could not launch On-Demand Instances. InsufficientInstanceCapacity"
    ),
    # aws/amazon-cloudwatch-agent-test#220
    ("aws", Fault.DENIED): (
        "AccessDeniedException: User: deployer is not authorized to perform: eks:CreateCluster on resource: "
        "{name}"
    ),
}


def said(cloud: str, fault: Fault, name: str) -> str:
    """The message of the original."""
    return _SAID[cloud, fault].format(name=name)
