"""The schema of `muster:pools`."""

from muster.config.schema.kinds import (
    Schema,
    choice,
    either,
    integer,
    key,
    mapping,
    quantity,
    text,
    texts,
)
from muster.config.schema.writer import properties
from muster.model.accelerators import ACCELERATORS, SHORT_NAMES
from muster.model.machines import AMD64, ARM64, MACHINES, MOST_GPUS
from muster.model.pools import Pool


def definitions() -> dict[str, Schema]:
    return {"pool": _pool()}


def _pool() -> Schema:
    keys = mapping(
        {
            "machine": key(
                "The machine type of all nodes: one of the table, or another one with `node`.",
                either(choice(sorted(MACHINES)), text()),
                otherwise="required, unless an existing cluster has `node`",
                example="g2-standard-8",
            ),
            "node": key(
                "What one node has: in place of `machine` in an existing cluster, beside one that no table "
                "has on GKE and EKS.",
                _node(),
                example={"cpu": 96, "memory": "1Ti", "gpus": 8, "accelerator": "nvidia-h100-80gb"},
            ),
            "accelerator": key(
                "The GPU or TPU of the machine.",
                choice((*ACCELERATORS, *SHORT_NAMES)),
                otherwise="the one that the machine carries",
                example="nvidia-l4",
            ),
            **properties(Pool),
        },
        required=("maxNodes",),
    )
    alone = {"required": ["node"], "not": {"required": ["machine"]}}
    return {**keys, "oneOf": [{"required": ["machine"]}, alone]}


def _node() -> Schema:
    return mapping(
        {
            "cpu": key(
                "The CPUs that pods can request on one node; on GKE and EKS the machine's vCPUs.",
                quantity(),
                example=96,
            ),
            "memory": key(
                "The memory that pods can request on one node; on GKE and EKS the machine's memory.",
                quantity(),
                example="1Ti",
            ),
            "gpus": key(
                "The GPUs of one node, or its Neuron devices.",
                integer(most=MOST_GPUS),
                default=0,
                example=8,
            ),
            "accelerator": key(
                "The GPU: one that Muster knows, or nvidia-NAME or amd-NAME with `gpuMemory`.",
                text(),
                otherwise="no GPU",
                example="nvidia-h100-80gb",
            ),
            "gpuMemory": key(
                "The memory of one GPU.",
                quantity(),
                otherwise="that of the accelerator",
                example="80Gi",
            ),
            "localDisks": key(
                "The machine's local disks (GKE, EKS); on EKS 1 for any number.",
                integer(most=64),
                default=0,
                example=8,
            ),
            "efa": key("The machine's EFA interfaces (EKS).", integer(most=64), default=0, example=8),
            "architecture": key(
                "The architecture of the machine's CPU (GKE, EKS).",
                choice((AMD64, ARM64)),
                default=AMD64,
                example=ARM64,
            ),
            "labels": key(
                "Labels that the nodes have already, besides muster.dev/pool; the pool's ResourceFlavor "
                "selects them.",
                texts(),
                otherwise="none",
                example={"example.com/fabric": "infiniband"},
            ),
        },
        required=("cpu", "memory"),
    )
