"""The programs of all shipped stacks for the recorder: charts and images are named, none is fetched."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from muster.artifacts import resolved
from muster.artifacts.resolved import Artifacts
from muster.components.platform import Platform, PlatformArgs
from muster.components.program import make
from muster.config import load
from muster.model.programs import Chart, ImageSource
from muster.model.stack import ArtifactSource, Stack
from tests.mocks.recorder import Program, run

ROOT: Final = Path(__file__).parents[2]
STACKS: Final = tuple(sorted(path.name.split(".")[1] for path in (ROOT / "stacks").glob("Pulumi.*.yaml")))
IMAGE: Final = ImageSource(gang_admission=f"registry.test/gang-admission@sha256:{'ab' * 32}")
_BUILT: Final = ("kueue", "kuberay", "gang-admission", "pause")
_KUBECONFIG: Final = {
    "contexts": [{"name": "muster", "context": {"cluster": "k", "user": "u"}}],
    "clusters": [{"name": "k", "cluster": {"server": "https://k"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}


def program(name: str, folder: Path) -> Callable[[], object]:
    """The program of the stack `name`. `folder` gets what a stack with built artifacts reads."""
    stack = shipped(name)
    source = ROOT / "stacks" / f"Pulumi.{name}.yaml"
    artifacts = (
        built(folder)
        if stack.artifacts is ArtifactSource.LOCAL
        else resolved.resolve_artifacts(stack, name=name)
    )
    return lambda: make(stack, artifacts=artifacts, source=source)


def platform(
    stack: Stack, artifacts: Artifacts | None = None, *, existing: list[dict[str, Any]] | None = None
) -> Program:
    """The platform of a stack, by default with the published artifacts, beside `existing` Deployments."""
    chosen = artifacts or resolved.resolve_artifacts(stack, name="here")
    return run(lambda: Platform("muster", PlatformArgs(stack=stack, artifacts=chosen)), existing=existing)


def shipped(name: str) -> Stack:
    return replace(load(ROOT / "stacks" / f"Pulumi.{name}.yaml"), images=IMAGE)


def built(folder: Path) -> Artifacts:
    """As the local cluster's build leaves them, without contents."""
    for name in ("kueue", "kuberay/default", "kuberay/rbac", "kuberay/manager", "kuberay/crd/bases"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "kuberay/crd/bases/ray.io_rayjobs.yaml").write_text("kind: CustomResourceDefinition\n")
    (folder / "provisioningrequests.yaml").write_text("kind: CustomResourceDefinition\n")
    return Artifacts(
        source="test",
        charts={"kueue": Chart(name="kueue", reference=str(folder / "kueue"))},
        kustomize={"kuberay": folder / "kuberay/default"},
        crds={"provisioningrequests": folder / "provisioningrequests.yaml"},
        images={name: f"registry.test/{name}@sha256:{'ab' * 32}" for name in _BUILT},
        programs={},
    )


def kubeconfig(folder: Path) -> Path:
    """A kubeconfig with the context that the local stack names."""
    path = folder / "config"
    path.write_text(json.dumps(_KUBECONFIG))
    return path
