"""The schema of a whole stack file. Pulumi's own keys and those of other programs are left alone."""

from typing import Any, Final

from muster.artifacts.catalogue import catalogue
from muster.config.document import NAMESPACE
from muster.config.schema.writer import (
    Schema,
    array_of,
    by_name,
    choice,
    defined,
    either,
    integer,
    key,
    mapping,
    properties,
    quantity,
    schema,
    text,
)
from muster.config.sections import KUBERNETES, VERSION_KEYS, OwnNode
from muster.config.stack import CLASSES
from muster.model.accelerators import ACCELERATORS, SHORT_NAMES
from muster.model.gangpolicy import crd
from muster.model.kai import QueueSettings, ShardSettings
from muster.model.kueue import Group
from muster.model.machines import MACHINES
from muster.model.names import PRODUCTION
from muster.model.pools import Pool
from muster.model.programs import PLACEMENTS
from muster.model.queues import Bound, Department, Team
from muster.model.regions import Provider
from muster.model.stack import GangMode, Stack, VersionLevel

# The schema of `muster:cluster`: one for each provider, chosen by `provider`.


def cluster() -> Schema:
    """Whatever the provider: the rest depends on it."""
    return {
        "type": "object",
        "description": "The cluster: its provider, its name, and what the provider needs.",
        "examples": [
            {"provider": "gke", "name": "ml-prod", "region": "us-central1", "project": "my-project"}
        ],
        "properties": {"provider": key("Who runs the cluster.", choice(Provider))},
        "required": ["provider"],
        "allOf": [
            {
                "if": {"properties": {"provider": {"const": provider.value}}, "required": ["provider"]},
                "then": defined(_definition(provider)),
            }
            for provider in Provider
        ],
    }


def _definition(provider: Provider) -> str:
    return f"{provider}Cluster"


def _cluster_schema(provider: Provider) -> Schema:
    whole = schema(CLASSES[provider])
    whole["properties"] = {
        "provider": key("Who runs the cluster.", {"const": provider.value}),
        **whole["properties"],
    }
    whole["required"] = ["provider", *whole["required"]]
    if provider is Provider.GKE:
        whole |= {"if": {"not": {"required": ["zone"]}}, "then": {"required": ["region"]}}
    return whole


# The schema of `muster:pools`.


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
                schema(OwnNode),
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


# The schema of `muster:departments`: the queue tree.


def department_definitions() -> dict[str, Schema]:
    return {
        "amount": _amount(),
        "limit": either(choice(Bound), by_name(either(choice(Bound), defined("amount")))),
        "department": schema(Department),
        "team": schema(Team),
        "kaiQueue": schema(QueueSettings),
        "resourceGroups": key(
            "Quotas as in Kueue's API. Groups that cover CPU, memory or GPUs replace the pools' quotas.",
            array_of(schema(Group)),
            otherwise="none",
        ),
    }


def _amount() -> Schema:
    """GPUs of a GPU pool, CPUs of a CPU pool, or a mapping. Which of them, only the pool can decide."""
    detailed = mapping(
        {
            "gpus": key("GPUs.", integer(), example=4),
            "cpu": key("CPUs.", quantity(), otherwise="the share that comes with the GPUs", example=32),
            "memory": key(
                "Memory.", quantity(), otherwise="the share that comes with the GPUs", example="128Gi"
            ),
            "resources": key(
                "Other resources by name.", by_name(quantity()), otherwise="none", example={"rdma/hca": 4}
            ),
        }
    )
    # `null` is no amount: an entry of a quota has a value.
    return either(quantity(), {**detailed, "type": "object"})


# The schema of a stack's smaller keys: gang admission, tenancy, observability, charts, images, programs.

_DIGEST: Final = f"sha256:{'0123456789abcdef' * 4}"
IMAGE: Final = f"registry.example.com/muster@{_DIGEST}"
"""An example of an image."""
# Those of a GangPolicy that come from the pools and teams.
_FROM_POOLS: Final = ("flavors", "comparedLabels", "idle")
# Where the sentence of the definition is about the object, and not about what a stack writes.
_SENTENCES: Final = {
    "placeholderImage": (
        "Image of the pods that only wait: placeholders of pools with `gangs: placeholders`, and on held "
        "nodes with `onStaggered: hold`. Default: the stack's pause image."
    ),
    "kai": "How gangs are admitted where KAI schedules.",
}


def gang_admission() -> Schema:
    """The mode, or the mode and the fields of GangPolicy as its own definition has them."""
    spec = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    fields = {name: _field(each) for name, each in spec["properties"].items() if name not in _FROM_POOLS}
    for name, sentence in _SENTENCES.items():
        fields[name]["description"] = sentence
    fields["placeholderImage"]["examples"] = [f"registry.example.com/pause@{_DIGEST}"]
    mode = key(
        "Who provides the capacity of gangs: Muster, Kueue's own check, or nothing.",
        choice(GangMode),
        default=GangMode.MUSTER.value,
    )
    return either(choice(GangMode), mapping({"mode": mode, **fields}))


def _field(field: dict[str, Any]) -> Schema:
    """A field of a CRD as a key of a stack file."""
    kept = {name: value for name, value in field.items() if not name.startswith("x-kubernetes-")}
    sentence = kept.pop("description")
    default = kept.pop("default", None)
    if "properties" in kept:
        return key(sentence, mapping({name: _field(each) for name, each in kept["properties"].items()}))
    return key(sentence, kept, default=default or None if isinstance(default, str) else default)


def versions() -> Schema:
    """One key for each program, and the cluster's own version."""
    charts = catalogue().charts
    programs = {
        name: key(
            f"The version of {PLACEMENTS[program].title}: of its chart and its images together.",
            text(),
            default=charts[program.value].version.removeprefix("v"),
        )
        for name, program in VERSION_KEYS.items()
    }
    kubernetes = "The cluster's version, as `cluster.version`; write one of them."
    production = " or ".join(f"`{name}`" for name in PRODUCTION)
    require = (
        "How well versions have to be known. `run`: Muster's suites run them. `read`: their release notes "
        "were read, too, and what they require of this stack is a warning."
    )
    return mapping(
        {
            **programs,
            KUBERNETES: key(kubernetes, text(), otherwise="as in `cluster.version`", example="1.36"),
            "require": key(
                require, choice(VersionLevel), otherwise=f"`run` for stacks named {production}, else `read`"
            ),
        }
    )


def charts() -> Schema:
    digests = {
        name: key(f"Digest of the chart {name}.", text(), example=_DIGEST) for name in catalogue().charts
    }
    return mapping(
        {
            "mirror": key(
                "An OCI registry that has the charts.",
                text(),
                otherwise="each project's own",
                example="oci://registry.example.com/charts",
            ),
            "path": key("A folder that has the charts; in place of `mirror`.", text(), example="charts"),
            "digests": key("Digests of the charts' archives.", mapping(digests), otherwise="Muster's own"),
        }
    )


def image() -> Schema:
    return {"type": "string"}


def images() -> Schema:
    pinned = {
        name: key(
            f"Reference of the image {name}, with its digest.",
            text(),
            example=f"registry.example.com/{name}@{_DIGEST}",
        )
        for name in catalogue().images
    }
    return mapping(
        {
            **pinned,
            "mirror": key(
                "A registry and path in place of each image's own registry.",
                text(),
                otherwise="none",
                example="registry.example.com/mirror",
            ),
        }
    )


_REQUIRED: Final = ("cluster", "pools", "departments")
_ORDER: Final = (
    *(*_REQUIRED, "extends", "priorities", "scheduler", "gangAdmission", "podsReady", "tenancy", "artifacts"),
    *("ray", "work", "versions", "charts", "image", "images", "kai", "kueue", "observability", "recording"),
    *("budgets", "kuberay", "gpuOperator"),
)


def stack_schema() -> Schema:
    """A new schema, ready for `json.dumps`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Stack file of Muster",
        "type": "object",
        "required": ["config"],
        "properties": {
            "config": _config(),
            "secretsprovider": {
                "type": "string",
                "description": "Where Pulumi encrypts secrets of this stack.",
            },
            "encryptedkey": {"type": "string", "description": "Written by Pulumi."},
            "encryptionsalt": {"type": "string", "description": "Written by Pulumi."},
            "environment": {"description": "Environments of Pulumi ESC that the stack imports."},
        },
        "$defs": {
            **{_definition(provider): _cluster_schema(provider) for provider in Provider},
            "pool": _pool(),
            **department_definitions(),
            "kaiShard": schema(ShardSettings),
        },
    }


def _config() -> Schema:
    return {
        "type": "object",
        "description": "The keys of the stack. Muster's begin with `muster:`.",
        "required": [f"{NAMESPACE}{name}" for name in _REQUIRED],
        "properties": {f"{NAMESPACE}{name}": kind for name, kind in _keys().items()},
        # Keys of other programs, such as gcp:project.
        "patternProperties": {f"^(?!{NAMESPACE})": {}},
        "additionalProperties": False,
    }


def _keys() -> dict[str, Schema]:
    keys = properties(Stack) | {
        "cluster": cluster(),
        "pools": key(
            "Pools of equal nodes, by name.",
            {"type": "object", "additionalProperties": defined("pool")},
            example={"l4": {"machine": "g2-standard-8", "maxNodes": 8}},
        ),
        "departments": key(
            "The queue tree: departments with teams and, nested, departments, by name.",
            {"type": "object", "additionalProperties": defined("department")},
            example={"research": {"teams": {"vision": {"quota": {"l4": 4}}}}},
        ),
        "extends": key(
            "A file beside this one whose keys this file changes: `base` is base.yaml.",
            {"type": "string"},
            example="base",
        ),
        "gangAdmission": key(
            "How gangs get their capacity.", gang_admission(), example={"provisionTimeout": "2h"}
        ),
        "versions": key(
            "Which versions of programs and of Kubernetes are installed.",
            versions(),
            otherwise="Muster's own",
            example={"kuberay": "1.6.2", "kueue": "0.19.2"},
        ),
        "charts": key("Where charts come from.", charts(), otherwise="each project's own repository"),
        "image": key(
            "The image of Muster's controller by digest; `muster image push` writes it.",
            image(),
            example=IMAGE,
        ),
        "images": key(
            "Where other images come from.",
            images(),
            otherwise="each image's own registry",
            example={"mirror": "registry.example.com/mirror"},
        ),
    }
    return {name: keys[name] for name in _ORDER}


# The JSON Schema of a file that extends another or is extended: any key may be absent or `null`.

# Schemas of keys: each key may be null.
_OF_KEYS: Final = ("properties", "patternProperties")
# Which keys there have to be.
_DROPPED: Final = ("required", "oneOf")
# What an editor shows of a key.
_SHOWN: Final = ("description", "default", "examples")
# No schemas of values.
_KEPT: Final = ("if", "examples", "default", "enum")


def part_schema() -> Schema:
    """The schema of whole stacks without what a file needs to be whole."""
    whole = _part(stack_schema())
    return {**whole, "title": "File of Muster that extends another or is extended", "required": ["config"]}


def _part(node: Any) -> Any:
    if isinstance(node, list):
        return [_part(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {}
    for name, value in node.items():
        if name in _OF_KEYS:
            found[name] = {key: _nullable(each) for key, each in value.items()}
        elif name == "additionalProperties" and isinstance(value, dict):
            found[name] = _nullable(value)
        elif name in _KEPT:
            found[name] = value
        elif name not in _DROPPED:
            found[name] = _part(value)
    return found


def _nullable(node: Schema) -> Schema:
    part: Schema = _part(node)
    if "type" not in node or "anyOf" in node:
        shown: Schema = {name: part.pop(name) for name in _SHOWN if name in part}
        return {**shown, "anyOf": [part, {"type": "null"}]}
    kinds = [node["type"]] if isinstance(node["type"], str) else node["type"]
    part["type"] = [*kinds, *(() if "null" in kinds else ("null",))]
    return part | ({"enum": [*node["enum"], None]} if "enum" in node else {})
