"""KAI's custom resources as Muster writes them for its tests (crds/), and KAI's own where there are any."""

from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

Definition = dict[str, Any]

CRDS: Final = Path(__file__).with_name("crds")
_ROOT: Final = Path(__file__).resolve().parents[2]
# Megabytes of other APIs stand in these two, and nobody of ours writes one: Config is rendered by KAI's chart
# out of the chart's values, a BindRequest passes between KAI's scheduler and its binder.
NOT_OURS: Final = frozenset({"configs.kai.scheduler", "bindrequests.scheduling.run.ai"})


@cache
def ours() -> dict[str, Definition]:
    """Our definitions by their full name, `queues.scheduling.run.ai`."""
    return _read(CRDS)


@cache
def theirs() -> dict[str, Definition]:
    """KAI's own by their full name; empty where they are absent."""
    folder = data("kai-crds")
    return {} if folder is None else _read(folder)


def data(name: str) -> Path | None:
    """What others published, in `shared/data` beside the checkout or beside its parent; None where absent."""
    folders = (base / "shared" / "data" / name for base in _ROOT.parents[:2])
    return next((folder for folder in folders if folder.exists()), None)


def schema(definition: Definition) -> Definition:
    """The schema of the one version that a definition has."""
    (version,) = definition["spec"]["versions"]
    found: Definition = version["schema"]["openAPIV3Schema"]
    return found


def _read(folder: Path) -> dict[str, Definition]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loaded = (yaml.load(path.read_text(), loader) for path in sorted(folder.glob("*.yaml")))  # noqa: S506 - safe
    return {definition["metadata"]["name"]: definition for definition in loaded}
