"""Registers what the SDK of any language registers for `muster-components:index:Queues`."""

import pulumi
import yaml

with open("../queues-alone/teams.yaml") as file:  # noqa: PTH123 - the engine's working directory
    sections = yaml.safe_load(file)["config"]
settings = pulumi.Config()
queues = pulumi.ComponentResource(
    "muster-components:index:Queues",
    "queues",
    {
        "stack": {key.removeprefix("muster:"): value for key, value in sections.items()},
        "kubeconfig": settings.require_secret("kubeconfig"),
        "kubeContext": settings.require("context"),
        "queueNames": None,
    },
    None,
    remote=True,
)
pulumi.export("urn", queues.urn)
