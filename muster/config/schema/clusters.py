"""The schema of `muster:cluster`: one for each provider, chosen by `provider`."""

from muster.config.schema.kinds import Schema, choice, defined, key
from muster.config.schema.writer import schema
from muster.config.stack import CLASSES
from muster.model.regions import Provider


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


def definitions() -> dict[str, Schema]:
    return {_definition(provider): _of(provider) for provider in Provider}


def _definition(provider: Provider) -> str:
    return f"{provider}Cluster"


def _of(provider: Provider) -> Schema:
    whole = schema(CLASSES[provider])
    whole["properties"] = {
        "provider": key("Who runs the cluster.", {"const": provider.value}),
        **whole["properties"],
    }
    whole["required"] = ["provider", *whole["required"]]
    if provider is Provider.GKE:
        whole |= {"if": {"not": {"required": ["zone"]}}, "then": {"required": ["region"]}}
    return whole
