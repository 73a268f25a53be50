"""What `muster validate` accepts, the engine accepts: every stack, story and YAML block of the docs.

The real engine reads the project file and a stack file, compares their types, and hands the values to a
program. Here the program is empty. Blocks of the docs that set different keys are read in one run.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any, Final

import pytest
import yaml

from muster import config
from muster.config.document import decode_value, parse_text
from muster.model.stack import ArtifactSource
from muster.scaffold.project import Target, stack_text
from tests import built

ROOT: Final = Path(__file__).resolve().parents[3]
_BLOCK: Final = re.compile(r"^```ya?ml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PREFIX: Final = "muster:"
_LOCAL: Final = ROOT / "stacks" / "Pulumi.local.yaml"
# The words that a stack may have in place of a mapping.
_WORDS: Final = (
    *({"muster:gangAdmission": word} for word in ("muster", "builtin", "off")),
    *({"muster:tenancy": word} for word in ("enforce", "warn", "off")),
)

Config = dict[str, Any]


@dataclass(frozen=True)
class Engine:
    folder: Path
    environment: dict[str, str]

    def read(self, file: Path) -> Config:
        """The values that a program gets for a stack file. AssertionError where the engine refuses them."""
        found = json.loads(self.pulumi("preview", "--json", "--config-file", str(file)))
        return {key: value for key, value in found["config"].items() if key.startswith(_PREFIX)}

    def pulumi(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", *arguments, "--stack", "any", "--non-interactive"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The project of this repository, with an empty program in Pulumi's YAML."""
    folder = tmp_path_factory.mktemp("engine")
    language = built.program("pulumi-language-yaml") or built.absent("pulumi-language-yaml")
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    project |= {"runtime": "yaml", "resources": {}}
    del project["plugins"]
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(project))
    (folder / "stacks").mkdir()
    (folder / "state").mkdir()
    environment = {
        **os.environ,
        "PATH": f"{built.tools()}:{language.parent}:{os.environ.get('PATH', '')}",
        "PULUMI_BACKEND_URL": (folder / "state").as_uri(),
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }
    made = Engine(folder, environment)
    made.pulumi("stack", "init")
    return made


def _examples() -> list[Path]:
    places = (
        *("stories/*/*.yaml", "adopted/*.yaml", "on-premises/stacks/*.yaml"),
        *("forty-teams/stacks/*.yaml", "library/*/[a-z]*.yaml"),
    )
    paths = (path for place in places for path in sorted((ROOT / "examples").glob(place)))
    return [path for path in paths if f"\n  {_PREFIX}cluster:" in path.read_text()]


@pytest.mark.parametrize("path", sorted((ROOT / "stacks").glob("Pulumi.*.yaml")), ids=lambda path: path.stem)
def test_a_stack_means_the_same_to_the_engine(engine: Engine, path: Path) -> None:
    # Without the salt and the provider of secrets, which belong to another state.
    file = _written(engine, _values(path.read_text()))
    assert config.parse(engine.read(file), source=path) == config.load(path)


@pytest.mark.parametrize("path", _examples(), ids=lambda path: path.stem + path.parent.name)
def test_an_example_means_the_same_to_the_engine(engine: Engine, path: Path) -> None:
    test_a_stack_means_the_same_to_the_engine(engine, path)


@pytest.mark.parametrize("target", Target)
def test_a_new_stack_means_the_same_to_the_engine(engine: Engine, target: Target, tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(
        stack_text(target, "dev").replace("my-project", "p").replace("198.51.100.0/24", "8.8.8.0/24")
    )
    assert config.parse(engine.read(_written(engine, _values(path.read_text()))), source=path) == config.load(
        path
    )


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_a_stack_that_extends_another_means_the_same_to_the_program(engine: Engine, name: str) -> None:
    """The engine passes the stack's own file and the project's defaults; the program reads the rest."""
    example, stacks = ROOT / "examples" / "environments" / "stacks", engine.folder / "stacks"
    shutil.copy(example / "base.yaml", stacks)
    path = Path(shutil.copy(example / f"Pulumi.{name}.yaml", stacks))
    values = engine.read(path)
    assert "machine" not in values["muster:pools"]
    assert config.parse(values, source=path) == config.load(path)
    assert config.load(path) == config.load(example / path.name)


def test_what_the_project_sets_means_the_same_to_the_engine(engine: Engine, tmp_path: Path) -> None:
    """With `value:`, as a value alone, and without the prefix."""
    project = yaml.safe_load((engine.folder / "Pulumi.yaml").read_text())
    own = project["config"]
    for key in ("podsReady", "priorities", "artifacts", "scheduler"):
        del own[f"{_PREFIX}{key}"]
    own |= {
        "muster:priorities": {"value": {"prod": 7, "dev": 1}},
        "muster:scheduler": "kueue",
        "artifacts": "local",
        "podsReady": {"type": "object", "default": {"retries": 7}},
    }
    (tmp_path / "Pulumi.yaml").write_text(yaml.safe_dump(project))
    (tmp_path / "stacks").mkdir()
    path = tmp_path / "stacks" / "Pulumi.any.yaml"
    kept = {key: value for key, value in _values(_LOCAL.read_text()).items() if key in own}
    path.write_text(yaml.safe_dump({"config": kept}))
    values = Engine(tmp_path, engine.environment).read(path)
    stack = config.load(path)
    assert config.parse(values, source=path) == stack
    assert (stack.artifacts, stack.pods_ready.retries) == (ArtifactSource.LOCAL, 7)


def test_the_program_reports_a_mistake_in_the_extended_file_at_its_line(
    engine: Engine, tmp_path: Path
) -> None:
    """The program of this repository, which the engine runs for the example."""
    shutil.copytree(ROOT / "examples" / "environments" / "stacks", tmp_path / "stacks")
    (tmp_path / "stacks" / "Pulumi.prod.yaml").rename(tmp_path / "stacks" / "Pulumi.any.yaml")
    base = tmp_path / "stacks" / "base.yaml"
    base.write_text(base.read_text().replace("machine: g2-standard-8", "machine: g2-standard-9"))
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    project["runtime"]["options"]["virtualenv"] = str(ROOT / ".venv")
    del project["plugins"]
    (tmp_path / "Pulumi.yaml").write_text(yaml.safe_dump(project))
    shutil.copy(ROOT / "__main__.py", tmp_path)
    done = Engine(tmp_path, {**engine.environment, "PYTHONPATH": str(ROOT)}).run("preview")
    assert done.returncode != 0
    assert "stacks/base.yaml:15: muster:pools.l4.machine: 'g2-standard-9'" in done.stdout + done.stderr


def _values(text: str) -> Config:
    return dict(parse_text(text, source="").values)


def _written(engine: Engine, values: Config) -> Path:
    file = engine.folder / "stacks" / "Pulumi.any.yaml"
    file.write_text(yaml.safe_dump({"config": values}, sort_keys=False))
    return file


def _blocks() -> Iterator[Config]:
    for path in sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"))):
        for text in _BLOCK.findall(path.read_text()):
            if _PREFIX in text:
                yield _values(text if "config:" in text else "config:\n" + indent(text, "  "))


def _batches() -> list[Config]:
    """Stacks that hold all blocks and words between them, each with keys of its own."""
    batches: list[Config] = []
    for block in (*_WORDS, *_blocks()):
        free = next((each for each in batches if not each.keys() & block.keys()), None)
        if free is None:
            batches.append(dict(block))
        else:
            free |= block
    return batches


def test_the_docs_have_blocks() -> None:
    assert len(list(_blocks())) >= 4


@pytest.mark.parametrize("batch", _batches(), ids=lambda batch: ", ".join(batch))
def test_the_engine_takes_every_block_of_the_docs(engine: Engine, batch: Config) -> None:
    found = engine.read(_written(engine, _values(_LOCAL.read_text()) | batch))
    for key, value in batch.items():
        assert decode_value(found[key]) == value
