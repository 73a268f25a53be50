"""Where Muster's own files are, and where the user's project is.

Responsible for: package data that ships in the wheel, the directory from which Python imports `muster`, and
the project (the directory with `Pulumi.yaml`) that a command was started in.
"""

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent
IMPORT_ROOT: Final = PACKAGE.parent
"""The directory that child processes need on `PYTHONPATH` to import `muster`: site-packages or a checkout."""

DATA: Final = PACKAGE / "artifacts" / "data"
VERSIONS_FILE: Final = DATA / "versions.toml"
REQUIREMENTS: Final = DATA / "requirements"
"""Python packages with hashes: of the controller's image, of the Ray image, of the Go toolchain."""

LOCAL_POOLS: Final = PACKAGE / "local" / "pools.yaml"
"""The pools and the stock of the simulated cloud."""
KARPENTER_POOLS: Final = PACKAGE / "local" / "karpenter-pools.yaml"
"""The same where Karpenter buys the nodes."""
KAI_POOLS: Final = PACKAGE / "local" / "kai-pools.yaml"
"""The same for stack `local-kai`."""

EXAMPLES: Final = PACKAGE / "local" / "demo" / "examples"
PROJECT_FILE: Final = "Pulumi.yaml"
STACKS: Final = "stacks"


def project(start: Path | None = None) -> Path:
    """The nearest directory at or above `start` (default: the working directory) that has a `Pulumi.yaml`;
    `start` itself where none has.
    """
    origin = (start or Path.cwd()).resolve()
    for folder in (origin, *origin.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder
    return origin


def stack_name(file: Path) -> str:
    """`stacks/Pulumi.dev.yaml` is stack `dev`."""
    return file.name.removeprefix("Pulumi.").removesuffix(".yaml").removesuffix(".yml")


def stack_file(name: str, *, start: Path | None = None) -> Path:
    """The file of the stack `name` in the project, whether it exists or not."""
    return project(start) / STACKS / f"Pulumi.{name}.yaml"
