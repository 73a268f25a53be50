"""The schema of a whole stack file. Pulumi's own keys and those of other programs are left alone."""

from typing import Final

from muster.config.document import NAMESPACE
from muster.config.schema import clusters, departments, pools, settings
from muster.config.schema.kinds import Schema, defined, key
from muster.config.schema.writer import properties, schema
from muster.model.kai import ShardSettings
from muster.model.stack import Stack

_REQUIRED: Final = ("cluster", "pools", "departments")
_ORDER: Final = (
    *(*_REQUIRED, "extends", "priorities", "scheduler", "gangAdmission", "podsReady", "tenancy", "artifacts"),
    *("ray", "work", "versions", "charts", "image", "images", "kai", "kueue", "observability", "recording"),
    *("kuberay", "gpuOperator"),
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
            **clusters.definitions(),
            **pools.definitions(),
            **departments.definitions(),
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
        "cluster": clusters.cluster(),
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
            "How gangs get their capacity.", settings.gang_admission(), example={"provisionTimeout": "2h"}
        ),
        "versions": key(
            "Which versions of programs and of Kubernetes are installed.",
            settings.versions(),
            otherwise="Muster's own",
            example={"kuberay": "1.6.2", "kueue": "0.19.2"},
        ),
        "charts": key(
            "Where charts come from.", settings.charts(), otherwise="each project's own repository"
        ),
        "image": key(
            "The image of Muster's controller by digest; `muster image push` writes it.",
            settings.image(),
            example=settings.IMAGE,
        ),
        "images": key(
            "Where other images come from.",
            settings.images(),
            otherwise="each image's own registry",
            example={"mirror": "registry.example.com/mirror"},
        ),
    }
    return {name: keys[name] for name in _ORDER}
