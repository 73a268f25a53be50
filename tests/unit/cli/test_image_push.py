"""`muster image push` and `build STACK` look at the stack and its repository before they build anything."""

from pathlib import Path

import pytest

from muster.artifacts.oci.registry import UnreachableError, Web
from muster.cli import main
from muster.config.edit import template
from muster.model.regions import Provider


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("Pulumi.yaml").write_text("name: x\nruntime: python\n", encoding="utf-8")
    Path("stacks").mkdir()
    Path("stacks/Pulumi.lab.yaml").write_text(template("lab", Provider.EXISTING), encoding="utf-8")
    Path("stacks/Pulumi.broken.yaml").write_text("config: {}\n", encoding="utf-8")

    def build(**_: object) -> None:
        raise AssertionError("it builds before it knows where to push")

    monkeypatch.setattr("muster.artifacts.publish.build.build", build)


@pytest.mark.parametrize("verb", ["push", "build"])
@pytest.mark.parametrize(
    ("stack", "message"),
    [
        ("nope", "Pulumi.nope.yaml: there is no such stack file"),
        ("broken", "Pulumi.broken.yaml"),
        ("lab", "--repository HOST/PATH"),
    ],
)
def test_what_cannot_be_pushed_is_refused_before_the_build(
    verb: str, stack: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", verb, stack]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["push", "build"])
def test_a_repository_that_is_none_is_refused_before_the_build(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["image", verb, "lab", "--repository", "no-host"]) in (2, 3)
    assert "no-host" in capsys.readouterr().err


def test_a_registry_that_does_not_answer_is_reported_before_the_build(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UnreachableError("registry.example does not answer")

    monkeypatch.setattr(Web, "call", refuse)
    assert main(["image", "push", "lab", "--repository", "registry.example/muster"]) == 3
    assert "registry.example does not answer" in capsys.readouterr().err
