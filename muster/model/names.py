"""The names that Muster's programs and clusters share.

Contains every name that two of our programs, or one of them and a cluster, have to spell alike. Names that
a user chooses (pools, teams, departments, priorities) are in the stack file.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

PRODUCTION: Final = ("prod", "*-prod")
"""Stacks of these names are held to more from the first day: images by digest, protection, run versions."""


def is_production(stack_name: str) -> bool:
    return any(fnmatchcase(stack_name, pattern) for pattern in PRODUCTION)


# What labels may be called and say in Kubernetes: an optional DNS prefix and a name
# (apimachinery/pkg/util/validation).
QUALIFIED_NAME: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z"
)
LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")

# Our own API group. GangPolicy is cluster-scoped: one policy bounds every team alike.
GROUP: Final = "muster.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
GANG_POLICY_KIND: Final = "GangPolicy"
GANG_POLICY_PLURAL: Final = "gangpolicies"
GANG_POLICY_SHORT: Final = "gp"
GANG_POLICY: Final = "default"
QUEUE_TREE_KIND: Final = "QueueTree"
QUEUE_TREE_PLURAL: Final = "queuetrees"
QUEUE_TREE: Final = "default"

# Kueue keeps `controllerName` for good, so the object has another name when Kueue's own check is used
# instead.
CONTROLLER_NAME: Final = f"{GROUP}/gang-admission"
FIELD_MANAGER: Final = CONTROLLER_NAME
ADMISSION_CHECK: Final = "gang"
# The scheduling gate of every GPU pod of a KAI stack. The webhook and the policies add it at creation, and
# only the controller removes it. (Kueue stacks need none: Kueue gates its own pods.)
GANG_GATE: Final = f"{GROUP}/gang"
BUILTIN_CONTROLLER_NAME: Final = "kueue.x-k8s.io/provisioning-request"
MULTI_KUEUE: Final = "kueue.x-k8s.io/multikueue"
# On what the Kueue of a MultiKueue manager has made in this cluster.
MULTI_KUEUE_ORIGIN: Final = "kueue.x-k8s.io/multikueue-origin"

# Every name that the controller gives begins with it.
OWN_PREFIX: Final = "muster-"

SYSTEM_NAMESPACE: Final = "muster-system"
# The controller's Lease and webhook configurations have this name; what else it has begins with it.
PROGRAM: Final = "gang-admission"
MANAGER: Final = f"{PROGRAM}-manager"
# The Secret that keeps the webhooks' certificates.
CERTIFICATES: Final = f"{PROGRAM}-certificates"
# The PriorityClass of the controller's own pods, in every stack.
OWN_PRIORITY_CLASS: Final = "muster-gang-admission"
# The account of the recorder, and all that it has.
RECORDER: Final = "muster-recorder"
KUEUE_NAMESPACE: Final = "kueue-system"
RAY_NAMESPACE: Final = "ray-system"
KAI_NAMESPACE: Final = "kai-scheduler"

# KAI's annotations of pods: a part of one GPU, or MiB of it, on how many GPUs at once.
GPU_FRACTION: Final = "gpu-fraction"
GPU_MEMORY: Final = "gpu-memory"
GPU_FRACTION_DEVICES: Final = "gpu-fraction-num-devices"
# Before a profile: a slice of a GPU, as the device plugin's strategy `mixed` names it.
MIG_PREFIX: Final = "nvidia.com/mig-"
GPU_PARTS: Final = (GPU_FRACTION, GPU_MEMORY, GPU_FRACTION_DEVICES)
# KAI's label of pods that share a GPU, and of the pod that holds it for them.
GPU_GROUP_LABEL: Final = "runai-gpu-group"

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
POOL_LABEL: Final = f"{GROUP}/pool"
TEAM_LABEL: Final = f"{GROUP}/team"
DEPARTMENT_LABEL: Final = f"{GROUP}/department"
# A namespace with this label at "true" contains metrics scrapers, and may reach only metrics ports.
MONITORING_LABEL: Final = f"{GROUP}/monitoring"
SYSTEM_POOL: Final = "system"
# The default StorageClass of an EKS cluster with Auto Mode.
AUTO_MODE_CLASS: Final = "muster-ebs"

# Annotations of a namespace that admission reads: names separated by commas, written by the program. Users
# of the namespace cannot change them.
QUEUES_ANNOTATION: Final = f"{GROUP}/queues"
PRIORITIES_ANNOTATION: Final = f"{GROUP}/priorities"
# The account of a team's pipelines; people are members by group. (Pods run as `default`.)
MEMBER_ACCOUNT: Final = "member"
MEMBER_ROLE: Final = "muster-team-member"

GPU_RESOURCE: Final = "nvidia.com/gpu"
TPU_RESOURCE: Final = "google.com/tpu"
# Of AMD's device plugin, https://github.com/ROCm/k8s-device-plugin, and of AWS's, which counts whole devices:
# https://awsdocs-neuron.readthedocs-hosted.com/en/latest/containers/kubernetes-getting-started.html
AMD_RESOURCE: Final = "amd.com/gpu"
NEURON_RESOURCE: Final = "aws.amazon.com/neuron"
# What the nodes of a pool have beside CPU and memory, and how a person counts it: a pool has one of them or
# none. The taint of such nodes has the resource's name as its key. That of TPUs is GKE's own:
# https://cloud.google.com/kubernetes-engine/docs/concepts/tpus
DEVICES: Final[Mapping[str, str]] = MappingProxyType(
    {GPU_RESOURCE: "GPU", TPU_RESOURCE: "TPU chip", AMD_RESOURCE: "AMD GPU", NEURON_RESOURCE: "Neuron device"}
)
DEVICE_RESOURCES: Final = tuple(DEVICES)
# Whole GPUs, MIG slices and shared ones of a vendor; all of Neuron's units; TPUs.
DEVICE_PREFIXES: Final = ("nvidia.com/", "amd.com/", "aws.amazon.com/neuron", TPU_RESOURCE)
GPU_TAINT_KEY: Final = GPU_RESOURCE
# GKE labels TPU nodes with both, and its autoscaler reads them from the pods' node selectors.
TPU_ACCELERATOR_LABEL: Final = "cloud.google.com/gke-tpu-accelerator"
TPU_TOPOLOGY_LABEL: Final = "cloud.google.com/gke-tpu-topology"
# A label of every node, and the key of GKE's taint of those with ARM processors.
ARCHITECTURE_LABEL: Final = "kubernetes.io/arch"
GPU_TAINT_VALUE: Final = "present"
GPU_TAINT_EFFECT: Final = "NoSchedule"

# Kueue puts an unlabelled job of a namespace into the LocalQueue of exactly this name.
DEFAULT_LOCAL_QUEUE: Final = "default"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"
KUEUE_API_VERSION: Final = "kueue.x-k8s.io/v1beta2"
KUEUE_CONFIG_API_VERSION: Final = "config.kueue.x-k8s.io/v1beta2"

# On all objects that Muster makes for a Workload.
WORKLOAD_UID_LABEL: Final = f"{GROUP}/workload-uid"
# With KAI, on all objects that Muster makes for a Ray cluster.
RAY_CLUSTER_UID_LABEL: Final = f"{GROUP}/raycluster-uid"
# On a Workload that waits for quota: when it may start.
FORECAST_ANNOTATION: Final = f"{GROUP}/forecast"
# On a LocalQueue of a team with a budget: how much of it is used, once that is worth a warning.
BUDGET_ANNOTATION: Final = f"{GROUP}/budget"
# On an object of a Bundle: who else writes fields of it. What it wrote goes with this annotation.
WRITER_ANNOTATION: Final = f"{GROUP}/writer"
BUDGETS_WRITER: Final = "muster-budgets"
# On a Workload that waits outside the quota: until when, how often it has tried, and why not; or why never.
RETRY_AT_ANNOTATION: Final = f"{GROUP}/retry-at"
TRIES_ANNOTATION: Final = f"{GROUP}/tries"
# On a Workload, by a person: its gang stays outside the quota until the annotation is removed, or "false".
STOP_ANNOTATION: Final = f"{GROUP}/stop"
# On the Workload of a gang whose GPUs do nothing: since when, and when it is stopped for it.
IDLE_SINCE_ANNOTATION: Final = f"{GROUP}/idle-since"
IDLE_ENDS_ANNOTATION: Final = f"{GROUP}/idle-ends"
# On a job, by its author, or on its Workload: until when it is not stopped for that.
KEEP_UNTIL_ANNOTATION: Final = f"{GROUP}/keep-until"
LAST_FAILURE_ANNOTATION: Final = f"{GROUP}/last-failure"
REFUSED_ANNOTATION: Final = f"{GROUP}/refused"
# On a refused scale-up: a digest of its requests and of the limits at that time.
REFUSED_FOR_ANNOTATION: Final = f"{GROUP}/refused-for"
# On a growth between two tries: it waits in the quota.
GROWS_ANNOTATION: Final = f"{GROUP}/grows"
# On a Workload: flavors that were out of stock, which it keeps away from until it has tried the others.
AVOID_ANNOTATION: Final = f"{GROUP}/avoided-flavors"
# On a gang of several pieces: the attempt in which each is requested after the one before it is ready.
IN_TURN_ANNOTATION: Final = f"{GROUP}/one-by-one"
# On a gang: its requests that were released, to be made again, because a node of theirs was broken.
REPLACED_ANNOTATION: Final = f"{GROUP}/replaced"
# On the pods of a gang and, when the notice is given, on its Workload: when its capacity is taken back.
LEASE_ENDS_ANNOTATION: Final = f"{GROUP}/lease-ends"
# While an elastic gang runs: the attempt whose claims have been taken off its pod templates.
UNCLAIMED_ANNOTATION: Final = f"{GROUP}/unclaimed"
# On a slice of one that grows: the pods that ran before it, by PodSet, as they were counted.
RUNS_ANNOTATION: Final = f"{GROUP}/runs-already"
RUNS_ON_ANNOTATION: Final = f"{GROUP}/runs-on"
# On the Workload of a running gang: since when nodes of it are missing.
NODES_MISSING_ANNOTATION: Final = f"{GROUP}/nodes-missing-since"

PROVISIONING_API_VERSION: Final = "autoscaling.x-k8s.io/v1"
CONSUME_ANNOTATION: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_ANNOTATION: Final = "autoscaling.x-k8s.io/provisioning-class-name"
# On the pods of a gang: what it claims, and until when.
CLAIM_ANNOTATIONS: Final = (CONSUME_ANNOTATION, CLASS_ANNOTATION, LEASE_ENDS_ANNOTATION)

# Gangs by placeholders (docs/decisions/023-gangs-by-placeholders.md): the class in the GangPolicy, and where
# and with which priority the placeholders are.
PLACEHOLDER_CLASS: Final = f"placeholders.{GROUP}"
PLACEHOLDER_NAMESPACE: Final = "muster-placeholders"
PLACEHOLDER_PRIORITY_CLASS: Final = "muster-placeholder"
# On the nodes of such a gang until its pods have them. cluster-autoscaler takes a taint with this prefix for
# none of the group's own.
HELD_TAINT_KEY: Final = "status-taint.cluster-autoscaler.kubernetes.io/muster-gang"
# On a broken node, from which it keeps all new pods. Its value says why.
BROKEN_TAINT_KEY: Final = "status-taint.cluster-autoscaler.kubernetes.io/muster-broken"
# On its pods: the placeholders whose nodes they were promised.
PLACED_ANNOTATION: Final = f"{GROUP}/placed-by"
# On a placeholder and its PodTemplate: the value of that taint. On a placeholder: its Workload's namespace.
SET_LABEL: Final = f"{GROUP}/placeholder-set"
OWNER_NAMESPACE_ANNOTATION: Final = f"{GROUP}/owner-namespace"
# GKE puts this taint on queued nodes by itself (not the label of the same name).
GKE_QUEUED_TAINT_KEY: Final = "cloud.google.com/gke-queued"
GKE_QUEUED_CLASS: Final = "queued-provisioning.gke.io"
BEST_EFFORT_ATOMIC_CLASS: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK_CAPACITY_CLASS: Final = "check-capacity.autoscaling.x-k8s.io"
# A GKE lease labels its nodes with the resize request that the finished ProvisioningRequest reports as a
# detail.
GKE_LEASE_LABEL: Final = "autoscaling.gke.io/provisioning-request"
GKE_LEASE_DETAIL: Final = "ResizeRequestName"

# KAI's names (pkg/common/constants of KAI 0.17.0). A gang has the queue and the pool that the labels of its
# topmost owner name; the label of the priority class has no prefix.
KAI_QUEUE_API_VERSION: Final = "scheduling.run.ai/v2"
KAI_POD_GROUP_API_VERSION: Final = "scheduling.run.ai/v2alpha2"
KAI_SHARD_API_VERSION: Final = "kai.scheduler/v1"
KAI_TOPOLOGY_API_VERSION: Final = "kai.scheduler/v1alpha1"
KAI_SCHEDULER: Final = "kai-scheduler"
KAI_QUEUE_LABEL: Final = "kai.scheduler/queue"
KAI_PRIORITY_LABEL: Final = "priorityClassName"
KAI_REQUIRED_PLACEMENT: Final = "kai.scheduler/topology-required-placement"
"""Annotation of a gang's object, or of its pods: the level of a topology that they may not leave."""
# With how many of its pods KAI starts a Job, and below how many it evicts the rest; 1 where it is left out.
# 0.12 does not know it. Source: https://github.com/kai-scheduler/KAI-Scheduler at v0.17.0,
# pkg/podgrouper/podgrouper/plugins/job/job_grouper.go, read 2026-11-29
KAI_BATCH_MINIMUM: Final = "kai.scheduler/batch-min-member"
# The labels of a TrainJob that its JobSet gets, and whose entry in spec.runtimePatches they are in.
HANDED_DOWN: Final = (KAI_QUEUE_LABEL, KAI_PRIORITY_LABEL, POOL_LABEL)
PATCH_MANAGER: Final = f"{GROUP}/queue"

# By the controller, on the first pod of a gang that waits, or on the only one: what it waits for.
GANG_STATUS_ANNOTATION: Final = f"{GROUP}/gang-status"

# Ray's labels: the cluster of a pod, and the priority of a Ray object (read by KAI's grouper).
RAY_CLUSTER_LABEL: Final = "ray.io/cluster"
# On what KubeRay makes for a RayJob or a RayService: its kind (ray-operator/controllers/ray/utils of 1.6.2).
KUBERAY_ORIGIN_LABEL: Final = "ray.io/originated-from-crd"
RAY_PRIORITY_LABEL: Final = "ray.io/priority-class-name"

# Kueue's names: the annotation of elastic jobs, and the gate of their pods; the prefix of a job's
# annotations with parameters of its requests, which Kueue copies to the Workload.
ELASTIC_JOB: Final = "kueue.x-k8s.io/elastic-job"
# On the pods that Kueue has let start (pkg/constants of 0.19.2).
POD_SET_LABEL: Final = "kueue.x-k8s.io/podset"
# On the pods of what Kueue starts: their Workload. With TopologyAwareScheduling, which is on by default
# (pkg/controller/jobframework, pkg/features of 0.19.2, read 2026-11-29). No tenant may write it.
POD_WORKLOAD_ANNOTATION: Final = "kueue.x-k8s.io/workload"
# Of a batch Job that Kueue may also start with fewer pods at a time.
LEAST_AT_ONCE: Final = "kueue.x-k8s.io/job-min-parallelism"
JOB_PARAMETER_PREFIX: Final = "provreq.kueue.x-k8s.io/"

# A pod has to select the label with the same name as the taint of queued nodes.
GKE_QUEUED_LABEL: Final = GKE_QUEUED_TAINT_KEY
# Keeps GKE's own device plugin away (and with it GKE's driver installation).
GKE_NO_PLUGIN_LABEL: Final = "gke-no-default-nvidia-gpu-device-plugin"
GKE_NETWORK_DRIVER_LABEL: Final = "cloud.google.com/gke-networking-dra-driver"
# GKE: label and taint of a node that was made for a ComputeClass, and what a pod selects it by.
COMPUTE_CLASS_LABEL: Final = "cloud.google.com/compute-class"
# How cluster-autoscaler knows a GPU node on AWS (cloudprovider/aws/aws_cloud_provider.go, GPULabel).
EKS_GPU_LABEL: Final = "k8s.amazonaws.com/accelerator"
# Kueue's name for devices that are claimed without quota: of each queue's there are more than nodes have.
UNCOUNTED_DEVICES: Final = f"{GROUP}/uncounted-devices"
# The DeviceClass of the channels of every ComputeDomain.
# Source: https://github.com/NVIDIA/k8s-dra-driver-gpu at 22407113, the DeviceClasses of its chart, read
# 2026-11-27.
CHANNEL_DEVICE_CLASS: Final = "compute-domain-default-channel.nvidia.com"
EFA_RESOURCE: Final = "vpc.amazonaws.com/efa"
EFA_PLUGIN: Final = "aws-efa-k8s-device-plugin"
# Annotations of a pod whose node must not be taken away to save money: of cluster-autoscaler (GKE's as well),
# and of Karpenter (EKS Auto Mode's as well).
# https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
# https://karpenter.sh/docs/concepts/disruption/#pod-level-controls
UNDISTURBED: Final = MappingProxyType(
    {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
)
# cluster-autoscaler, which EKS does not bring itself: its ServiceAccount, Deployment and lease.
AUTOSCALER: Final = "cluster-autoscaler"
AUTOSCALER_NAMESPACE: Final = "kube-system"
# Karpenter: its release and ServiceAccount. Requests from kube-system have a priority of their own at the API
# server: https://karpenter.sh/docs/getting-started/getting-started-with-karpenter/
KARPENTER: Final = "karpenter"
KARPENTER_NAMESPACE: Final = "kube-system"


def compute_domain_template(job: str) -> str:
    """The ResourceClaimTemplate that a job of this name claims to get a ComputeDomain of its own."""
    return f"{job}-compute-domain"
