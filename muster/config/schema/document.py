"""The schema of a whole stack file. Pulumi's own keys and those of other programs are left alone."""

from typing import Final

from muster.config.document import NAMESPACE
from muster.config.schema import clusters, departments, kai, kueue, pools, settings
from muster.config.schema.kinds import Schema, by_name, choice, defined, each, key
from muster.model.stack import ArtifactSource, Scheduler
from muster.model.work import SERVED, Work

_REQUIRED: Final = ("cluster", "pools", "departments")


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
            **kai.definitions(),
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
    return {
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
        "priorities": key(
            "Priorities of work, by name: a greater number may preempt a smaller one.",
            by_name(settings.priority()),
            example={"prod": 1000, "dev": 100},
        ),
        "scheduler": key("Who queues and admits.", choice(Scheduler), default=Scheduler.KUEUE.value),
        "gangAdmission": key(
            "How gangs get their capacity.", settings.gang_admission(), example={"provisionTimeout": "2h"}
        ),
        "podsReady": key("What happens to admitted work whose pods do not come up.", settings.pods_ready()),
        "tenancy": key("What tenants may do.", settings.tenancy(), example={"egress": "none"}),
        "artifacts": key(
            "Where charts, manifests and images come from: this machine, or their registries.",
            choice(ArtifactSource),
            default=ArtifactSource.UPSTREAM.value,
        ),
        "ray": key("What Ray clusters have to be.", settings.ray()),
        "work": key(
            "The kinds of work that teams may submit. The cluster brings the controller of JobSets along.",
            each(choice(Work)),
            default=[word.value for word in SERVED],
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
        "kai": key("Settings of the KAI Scheduler.", kai.settings()),
        "kueue": key("Settings of Kueue.", kueue.settings()),
        "observability": key("How Muster is watched.", settings.observability()),
        "recording": key("A recorder of the cluster's jobs, for replays.", settings.recording()),
        "kuberay": key("The KubeRay operator.", settings.kuberay()),
        "gpuOperator": key("The GPU Operator.", settings.gpu_operator()),
    }
