"""The schema of a stack's smaller keys: gang admission, tenancy, observability, charts, images, programs."""

from typing import Any, Final

from muster.artifacts.catalogue import catalogue
from muster.config import bounds
from muster.config.charts import KUBERNETES, VERSION_KEYS
from muster.config.schema.kinds import (
    Schema,
    choice,
    duration,
    each,
    either,
    flag,
    format_seconds,
    integer,
    key,
    mapping,
    number,
    quantity,
    text,
    texts,
    words,
)
from muster.model.gangpolicy import crd
from muster.model.names import PRODUCTION
from muster.model.observability import Observability, Scraping
from muster.model.programs import PLACEMENTS
from muster.model.quantities import format_memory
from muster.model.ray import Ray, RayAuth
from muster.model.recording import RecordingSettings
from muster.model.stack import GangMode, PodsReady, VersionLevel
from muster.model.tenancy import (
    MOST_KIBIBYTES,
    MOST_OBJECTS,
    Capability,
    Drain,
    Egress,
    Namespaces,
    PodSecurity,
    Tenancy,
    TenancyMode,
)

_DIGEST: Final = f"sha256:{'0123456789abcdef' * 4}"
IMAGE: Final = f"registry.example.com/muster@{_DIGEST}"
"""An example of an image."""
# Those of a GangPolicy that come from the pools.
_FROM_POOLS: Final = ("flavors", "comparedLabels")
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


def priority() -> Schema:
    value = integer(**bounds.ANY)
    return either(
        value,
        mapping(
            {
                "value": key("Its value.", value, example=1000),
                "description": key(
                    "What it is for.", text(), otherwise="what follows from the value", example="Serving."
                ),
            },
            required=("value",),
        ),
    )


def pods_ready() -> Schema:
    known = PodsReady()
    return mapping(
        {
            "timeout": key(
                "How long admitted work may take until its pods are ready.",
                duration(),
                default=format_seconds(known.timeout),
            ),
            "recovery": key(
                "How long running work may miss a pod.", duration(), default=format_seconds(known.recovery)
            ),
            "retries": key(
                "How often such work is retried before it is deactivated.",
                integer(**bounds.RETRIES),
                default=known.retries,
            ),
        }
    )


def tenancy() -> Schema:
    known = Tenancy()
    objects = {
        name: key("Maximum number of objects of this kind in a namespace.", integer(), default=most)
        for name, most in MOST_OBJECTS.items()
    }
    sizes = {
        name: key("Maximum size of one object of this kind, in KiB.", integer(), default=most)
        for name, most in MOST_KIBIBYTES.items()
    }
    settings = mapping(
        {
            "mode": key(
                "Whether what the policies forbid is refused, warned of, or allowed.",
                choice(TenancyMode),
                default=known.mode.value,
            ),
            "namespaces": key(
                "Whether Muster makes and guards the namespaces of teams; `existing` does not change them.",
                choice(Namespaces),
                default=known.namespaces.value,
            ),
            "podSecurity": key(
                "The Pod Security Standard of team namespaces.",
                choice(PodSecurity),
                default=known.pod_security.value,
            ),
            "capabilities": key(
                "Capabilities that containers of teams may add beyond the standard, such as RDMA needs.",
                each(choice(Capability)),
                otherwise="none",
                example=[Capability.IPC_LOCK.value],
            ),
            "egress": key(
                "What pods may reach outside of their namespace.", choice(Egress), default=known.egress.value
            ),
            "reach": key(
                "Address ranges that every team may reach as well.",
                words(),
                otherwise="none",
                example=["10.20.0.0/16"],
            ),
            "objects": key("The maximum number of objects of a kind in a namespace.", mapping(objects)),
            "sizes": key("The maximum size of an object that a team writes, in KiB.", mapping(sizes)),
            "parameters": key(
                "Parameters of ProvisioningRequests that a job may set.",
                words(),
                default=list(known.parameters),
            ),
            "defaultPriority": key("The priority of work that names none.", text(), example="dev"),
            "terminationGrace": key(
                "The longest time that a pod may take to end.",
                duration(),
                default=format_seconds(known.termination_grace),
            ),
            "drain": key(
                "Whether the drain of a node waits for the teams' work on it to end, or evicts the work.",
                choice(Drain),
                default=known.drain.value,
            ),
            "networkProbe": key(
                "Whether `pulumi up` tries with two pods that the network enforces NetworkPolicies, and ends "
                "before it makes any team where it does not.",
                flag(),
                default=known.network_probe,
            ),
        }
    )
    return either(choice(TenancyMode), settings)


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


def observability() -> Schema:
    known = Observability()
    return mapping(
        {
            "metrics": key(
                "How metrics are found: by annotations, a PodMonitor, a PodMonitoring, or not at all.",
                choice(Scraping),
                default=known.metrics.value,
            ),
            "alerts": key("Whether alerts are installed.", flag(), default=known.alerts),
            "runbooks": key(
                "The address of the page to which alerts link, each to its own section: this documentation's "
                "metrics page, where your people can open it, or a page of your own.",
                text(),
                otherwise="alerts name the page of this documentation",
                example="https://docs.example.com/muster/reference/metrics.html",
            ),
            "dashboard": key("Whether a dashboard is installed.", flag(), default=known.dashboard),
            "labels": key(
                "Labels of monitors, alerts and the dashboard.",
                texts(),
                otherwise="none",
                example={"release": "prometheus"},
            ),
            "traces": key(
                "An OTLP endpoint over HTTP.",
                text(),
                otherwise="no traces",
                example="http://otel-collector.monitoring:4318",
            ),
            "sample": key(
                "The share of gangs that are traced.", number(most=1), default=known.sample, example=0.1
            ),
        }
    )


def recording() -> Schema:
    known = RecordingSettings()
    return mapping(
        {
            "enabled": key(
                "Whether a recorder runs in the cluster and keeps arrivals, runs and evictions of its jobs.",
                flag(),
                default=known.enabled,
            ),
            "storage": key(
                "The size of the recorder's volume. Before it is full, the oldest part of the recording is "
                "deleted.",
                quantity(),
                default=format_memory(known.storage),
                example="20Gi",
            ),
            "storageClass": key(
                "The StorageClass of the volume.",
                text(),
                otherwise="the cluster's own default",
                example="standard-rwo",
            ),
            "ephemeral": key(
                "Whether the recording lies on the pod's node and is lost with the pod: for clusters without "
                "a StorageClass.",
                flag(),
                default=known.ephemeral,
            ),
            "names": key(
                "Whether names of jobs, and of the nodes that they select, are recorded.",
                flag(),
                default=known.names,
            ),
            "forecasts": key(
                "Whether annotation `muster.dev/forecast` of each waiting Workload says when it may start.",
                flag(),
                default=known.forecasts,
            ),
        }
    )


def ray() -> Schema:
    known = Ray()
    return mapping(
        {
            "auth": key(
                "Whether work whose Ray API needs no token, or whose Ray is older than `minimum`, is refused "
                "(`required`) or warned of (`preferred`). With `off` only `minimum` is required. `token` is "
                "the former word for `required`.",
                choice(RayAuth),
                default=known.auth.value,
                example=RayAuth.PREFERRED.value,
            ),
            "minimum": key(
                "The oldest release of Ray, in quotes.",
                text(),
                default=f"{known.minimum.major}.{known.minimum.minor}",
                example="2.55",
            ),
        }
    )


def kuberay() -> Schema:
    sentence = "Whether Muster installs KubeRay; false where the cluster has it."
    return mapping({"install": key(sentence, flag(), default=True)})


def gpu_operator() -> Schema:
    sentence = "Whether Muster installs the GPU Operator; false where the cluster has it."
    otherwise = "true where a pool needs it; in an existing cluster only with `cluster.cloud`"
    return mapping({"install": key(sentence, flag(), otherwise=otherwise, example=True)})
