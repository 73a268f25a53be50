"""The schema of a stack's smaller keys: gang admission, tenancy, observability, charts, images, programs."""

from typing import Any, Final

from muster.artifacts.catalogue import catalogue
from muster.config.charts import KUBERNETES, VERSION_KEYS
from muster.config.schema.kinds import (
    Schema,
    choice,
    either,
    key,
    mapping,
    text,
)
from muster.model.gangpolicy import crd
from muster.model.names import PRODUCTION
from muster.model.programs import PLACEMENTS
from muster.model.stack import GangMode, VersionLevel

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
