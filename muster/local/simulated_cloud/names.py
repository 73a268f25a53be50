"""Every name that the autoscaler reads or writes on API objects."""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "muster-plane"
SERVICE_ACCOUNT: Final = "autoscaler"
POOLS_CONFIG: Final = "pools"
FAULTS_CONFIG: Final = "faults"
STATUS_CONFIG: Final = "autoscaler-status"
POOLS_KEY: Final = "pools.yaml"
CAPACITY_KEY: Final = "capacity"  # in FAULTS_CONFIG: the stock of pools
AUTOSCALER_KEY: Final = "autoscaler"  # in POOLS_CONFIG: who decides which nodes are bought
FIELD_MANAGER: Final = "localplane-autoscaler"

# ProvisioningRequest classes.
QUEUED: Final = "queued-provisioning.gke.io"
BEST_EFFORT: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK_CAPACITY: Final = "check-capacity.autoscaling.x-k8s.io"
CLASSES: Final = (QUEUED, BEST_EFFORT, CHECK_CAPACITY)

# Pods name the request that they consume; cluster-autoscaler still reads the second for old clients.
CONSUME_ANNOTATIONS: Final = (
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
)

# Nodes.
POOL_LABEL: Final = "muster.dev/pool"
LEASE_LABEL: Final = "autoscaling.gke.io/provisioning-request"
QUEUED_LABEL: Final = "cloud.google.com/gke-queued"
KWOK_ANNOTATION: Final = "kwok.x-k8s.io/node"
GPU: Final = "nvidia.com/gpu"

_OWN: Final = "localplane.muster.dev"
VM: Final = f"{_OWN}/vm"  # state of the machine: VmState
VM_ERROR: Final = f"{_OWN}/vm-error"
OWNER: Final = f"{_OWN}/request"  # namespace/name
OWNER_UID: Final = f"{_OWN}/request-uid"
ORDINAL: Final = f"{_OWN}/ordinal"  # which of the promised nodes this is, from 0
CREATED: Final = f"{_OWN}/created"
EXPIRES: Final = f"{_OWN}/expires"
UNNEEDED: Final = f"{_OWN}/unneeded-since"
CONSUMED: Final = f"{_OWN}/consumed-since"

# status.provisioningClassDetails: GKE's own keys ...
RESIZE_REQUEST: Final = "ResizeRequestName"
NODE_GROUP: Final = "NodeGroupName"
NODE_POOL: Final = "NodePoolName"
ACCELERATOR: Final = "AcceleratorType"
ZONE: Final = "SelectedZone"
AUTO_PROVISIONED: Final = "NodePoolAutoProvisioned"
MODE: Final = "ProvisioningMode"
# ... and what the real cloud keeps in its resize request, which this one keeps here.
DETAIL_NODES: Final = "LocalPlaneNodes"  # how many nodes the cloud has promised
DETAIL_READY_AT: Final = "LocalPlaneReadyAt"  # when they come; its presence is the promise
DETAIL_LAST_READY_AT: Final = "LocalPlaneLastReadyAt"  # when the last of them comes, if later
DETAIL_DELIVERED: Final = "LocalPlaneDelivered"  # how many have come; none is replaced

# Parameters of requests.
MAX_RUN_DURATION: Final = "maxRunDurationSeconds"
NO_RETRY: Final = "noRetry"
PROCESSOR_INSTANCE: Final = "processorInstance"
