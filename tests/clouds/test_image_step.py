"""`muster image push` makes the image's repository by the stack's own program, and nothing else of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.config.edit import template
from muster.model.clusters import Provider
from tests.clouds.engine import ROOT, Workspace, workspace
from tests.clouds.standin.serve import Clouds

_REPOSITORIES = {
    Provider.GKE: "gcp:artifactregistry/repository:Repository",
    Provider.EKS: "aws:ecr/repository:Repository",
}


@contextmanager
def _workspace(folder: Path, provider: Provider) -> Iterator[Workspace]:
    """The checkout's own program with stand-in clouds and a folder of stack files of its own."""
    name = f"step-{provider}"
    project = folder / "project"
    (project / "stacks").mkdir(parents=True)
    for entry in ROOT.iterdir():
        if entry.name not in ("stacks", ".git"):
            (project / entry.name).symlink_to(entry)
    region = {"AWS_REGION": "us-east-1"} if provider is Provider.EKS else {}
    with Clouds().serving() as clouds:
        made = workspace(folder / "w", project, name, {**clouds.environment, **region})
        file = project / "stacks" / f"Pulumi.{name}.yaml"
        # `pulumi stack init` has written one with nothing but a salt in it.
        file.write_text(file.read_text() + template(name, provider))
        yield made


@pytest.mark.parametrize("provider", _REPOSITORIES)
def test_the_repository_comes_first_and_alone(provider: Provider, tmp_path: Path) -> None:
    with _workspace(tmp_path, provider) as made:
        made.environment["MUSTER_STEP"] = "image-repository"
        arguments = ("--target", "**image-repository")
        first = made.up(*arguments)
        ours = [step.type for step in first.changes if not step.type.startswith("muster:")]
        assert ours == [_REPOSITORIES[provider]]
        assert made.up(*arguments).changes == []
        held = [each["type"] for each in made.state() if each.get("custom")]
        assert _REPOSITORIES[provider] in held
        assert not [each for each in held if not each.startswith(("pulumi:", _REPOSITORIES[provider]))]


@pytest.mark.parametrize("provider", _REPOSITORIES)
def test_up_without_the_digest_is_refused_with_the_command(provider: Provider, tmp_path: Path) -> None:
    with _workspace(tmp_path, provider) as made:
        refused = made.preview(fails=True)
    assert refused.changes == []
    assert f"muster image push step-{provider}" in refused.output
    assert "Traceback" not in refused.output
