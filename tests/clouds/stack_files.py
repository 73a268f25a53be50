"""The stack files that the tests run: those that the project ships, and one a cloud with every way to buy."""

from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from muster.artifacts.catalogue import catalogue
from muster.config.project import load_document
from muster.model.clusters import Provider
from tests.clouds.engine import ROOT

OWN: Final = {file.stem: file for file in sorted((Path(__file__).parent / "stacks").glob("*.yaml"))}


def provider(stack: Path) -> str:
    cluster = load_document(stack).values["muster:cluster"]
    assert isinstance(cluster, dict)
    return str(cluster["provider"])


SHIPPED: Final = [
    stack
    for stack in sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))
    if provider(stack) in (Provider.GKE, Provider.EKS)
]


def edited(stack: Path, into: Path, edits: dict[str, Any]) -> Path:
    """A copy with other values at dotted paths below `config:`; None takes one away. Lines stay as they were
    where nothing was edited.
    """
    yaml = YAML()
    document = yaml.load(stack.read_text())
    for path, value in edits.items():
        *steps, last = path.split(".")
        here = document["config"]
        for step in steps:
            here = here[step]
        if value is None:
            del here[last]
        else:
            here[last] = value
    with into.open("w") as file:
        yaml.dump(document, file)
    return into


def completed(stack: Path, into: Path, charts: Path) -> Path:
    """A copy with what a user adds to a shipped stack: a folder of charts, and images by digest, which the
    policy pack asks for. Nothing fetches them.
    """
    images = {name: _image(name) for name in catalogue().images}
    added = {"charts": {"path": str(charts)}, "image": _image("gang-admission"), "images": images}
    return edited(stack, into, {f"muster:{key}": value for key, value in added.items()})


def _image(name: str) -> str:
    return f"registry.test/{name}@sha256:{'ab' * 32}"
