"""The commands write what they accept, and never over what is there."""

from pathlib import Path

import pytest

from muster import config
from muster.cli import main
from muster.render import kueue
from muster.scaffold.project import Target


@pytest.mark.parametrize("provider", [target.value for target in Target])
def test_a_new_stack_file_is_a_valid_stack_of_its_provider(
    provider: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "my-stack", "--provider", provider, "--folder", str(tmp_path)]) == 0
    path = tmp_path / "Pulumi.my-stack.yaml"
    text = path.read_text(encoding="utf-8")
    if provider in ("gke", "eks"):
        assert main(["validate", str(path)]) == 1
        example = "my-project is the value of an example" if provider == "gke" else "documentation"
        assert example in capsys.readouterr().out
        text = text.replace("my-project", "ml-platform").replace("198.51.100.0/24", "8.8.8.0/24")
        path.write_text(text, encoding="utf-8")
    assert main(["validate", str(path)]) == 0
    stack = config.load(path)
    assert stack.cluster.provider == ("existing" if provider == "local" else provider)
    assert kueue.admission_check(stack)
    # Every choice of a cloud's stack is explained where it is made; stack local has fewer choices.
    assert path.read_text(encoding="utf-8").count("#") > (3 if provider == "local" else 10)
    assert text.startswith("# yaml-language-server: $schema=schema.json\n")


def test_an_existing_stack_file_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "Pulumi.mine.yaml"
    path.write_text("mine", encoding="utf-8")
    assert main(["new", "mine", "--provider", "gke", "--folder", str(tmp_path)]) == 2
    assert path.read_text(encoding="utf-8") == "mine"
    assert "exists already" in capsys.readouterr().err


def test_a_name_that_leads_out_of_the_folder_is_no_name(tmp_path: Path) -> None:
    assert main(["new", "../x", "--provider", "gke", "--folder", str(tmp_path)]) == 2
    assert list(tmp_path.parent.glob("*.yaml")) == []


def test_new_names_the_missing_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["new", "ml", "--provider", "existing", "--folder", str(tmp_path / "stacks")]
    assert main(argv) == 0
    assert f"muster init {tmp_path} --provider existing --name ml" in capsys.readouterr().out


def test_new_names_no_init_within_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "Pulumi.yaml").touch()
    argv = ["new", "ml", "--provider", "existing", "--folder", str(tmp_path / "stacks")]
    assert main(argv) == 0
    assert "muster init" not in capsys.readouterr().out


@pytest.mark.parametrize(("stack", "written"), [("staging", True), ("eu-prod", False)])
def test_a_further_stack_of_a_project_gets_the_levels_of_its_policies(
    tmp_path: Path, stack: str, *, written: bool
) -> None:
    assert main(["init", str(tmp_path), "--provider", "existing", "--name", "dev"]) == 0
    assert main(["new", stack, "--provider", "existing", "--folder", str(tmp_path / "stacks")]) == 0
    assert (tmp_path / "policies" / f"{stack}.json").exists() is written
