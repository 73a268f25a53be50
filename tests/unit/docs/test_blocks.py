"""Every code block of the documentation is executed, or has its reason."""

import ast
import importlib
import importlib.util
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest
import yaml

from muster.cli import main
from muster.config.document import NAMESPACE, Document
from muster.config.stack import examine
from muster.model import prices
from muster.policies.pack import RULES
from tests.unit.docs.blocks import ROOT, Block, blocks, indented_commands, pages
from tests.unit.docs.commands import UnknownCommandError, check, commands, help_lines, parse, typed, usages

Capture = pytest.CaptureFixture[str]
ALL: Final = [block for page in pages() for block in blocks(page)]
SHELL: Final = ("sh", "console")
# Commands that need nothing but the files of a project.
OFFLINE: Final = {
    ("check",),
    ("diff",),
    ("explain",),
    ("init",),
    ("new",),
    ("schema",),
    ("show",),
    ("validate",),
}
ELSEWHERE: Final = frozenset({"--kubeconfig", "--context", "--replay", "--head-plan"})
# Those of the stack are for documentation, which `muster validate` refuses.
ADDRESSES: Final = (("198.51.100.0/24", "100.20.30.0/24"), ("203.0.113.16/28", "100.20.31.16/28"))
DEPARTMENTS: Final = "muster:departments"
TEAM: Final[dict[str, Any]] = {"research": {"teams": {"vision": {}}}}
# Lends what the teams of a block borrow.
LENDER: Final[dict[str, Any]] = {"research": {"teams": {"lender": {"quota": {"l4": 1}}}}}
# What a block with some sections of a stack leaves out.
REST: Final[dict[str, Any]] = {
    "muster:cluster": {"provider": "existing", "name": "ml", "context": "ml"},
    "muster:pools": {
        "cpu": {"machine": "e2-standard-8", "maxNodes": 8},
        "l4": {"machine": "g2-standard-8", "maxNodes": 16},
        "h100": {"machine": "a3-highgpu-8g", "maxNodes": 4},
    },
    "muster:priorities": {"prod": 1000, "dev": 100},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What commands name: a repository with stacks, a job and prices."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "stacks").mkdir()
    shutil.copy(ROOT / "Pulumi.yaml", folder)
    described = (ROOT / "stacks/Pulumi.gke-prod.yaml").read_text(encoding="utf-8")
    for name in ("prod", "gke-prod"):
        own = described
        for example, real in (("ml-prod", f"ml-{name}"), ("my-project", "ml-1234"), *ADDRESSES):
            own = own.replace(example, real)
        (folder / f"stacks/Pulumi.{name}.yaml").write_text(own, encoding="utf-8")
    job = (ROOT / "examples/gang/rayjob.yaml").read_text(encoding="utf-8")
    (folder / "job.yaml").write_text(job.replace("team-a", "vision"), encoding="utf-8")
    (folder / "muster-bundle.tar.gz").touch()
    for words in (
        ("init", "--quiet"),
        ("add", "--all"),
        ("-c", "user.name=me", "-c", "user.email=me@example.com", "commit", "--quiet", "--message", "first"),
        ("update-ref", "refs/remotes/origin/main", "HEAD"),
    ):
        subprocess.run(("git", *words), cwd=folder, check=True, timeout=60)
    # Who types `muster diff` has changed something: without it a gate has nothing to compare, and says so.
    with (folder / "stacks/Pulumi.prod.yaml").open("a", encoding="utf-8") as stack:
        stack.write("# changed\n")
    return folder


@pytest.mark.parametrize("block", [block for block in ALL if block.mark is None], ids=str)
def test_a_block_without_a_mark_is_executed(
    block: Block, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = EXECUTED.get(block.language)
    assert run is not None, f"give it a language of {sorted(EXECUTED)}, or its reason: <!-- not run: ... -->"
    monkeypatch.chdir(project)
    run(block.text, capsys)


@pytest.mark.parametrize("block", [block for block in ALL if block.language in SHELL], ids=str)
def test_every_command_names_what_exists(
    block: Block, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    lines = [line for line, _ in typed(block.text)] if block.language == "console" else [block.text]
    for words in commands("\n".join(lines)):
        check(words)


@pytest.mark.parametrize("block", [block for block in ALL if block.language == "python"], ids=str)
def test_python_compiles_and_imports_what_exists(block: Block) -> None:
    for node in ast.parse(block.text).body:
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            for each in node.names:
                assert hasattr(module, each.name) or importlib.util.find_spec(f"{node.module}.{each.name}")


@pytest.mark.parametrize("block", [block for block in ALL if block.mark is not None], ids=str)
def test_a_mark_is_true(block: Block) -> None:
    assert block.mark is not None
    match block.mark.word:
        case "run by":
            assert (ROOT / block.mark.value).is_file()
        case "part of":
            assert block.text in (ROOT / block.mark.value).read_text(encoding="utf-8")
        case "parsed":
            assert unparsed(block) == []
        case _:
            assert len(block.mark.value.split()) > 2, "write a reason of a few words"


def unparsed(block: Block) -> list[str]:
    """Lines that the program does not have. Those of a shell are parsed by a test of their own."""
    known = usages() if block.language == "usage" else help_lines()
    return (
        []
        if block.language in SHELL
        else [line for line in block.text.splitlines() if line.strip() not in known]
    )


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_command_is_code_by_its_indentation_alone(page: Path) -> None:
    found = indented_commands(page.read_text(encoding="utf-8"))
    assert found == [], "write a fenced block"


def run_shell(text: str, capsys: Capture) -> None:
    for words in commands(text):
        run_command(words, capsys)


def run_console(text: str, capsys: Capture) -> None:
    for line, shown in typed(text):
        (words,) = commands(line)
        printed = run_command(words, capsys)
        assert [each for each in shown.splitlines() if each not in printed] == []


def run_command(words: list[str], capsys: Capture) -> str:
    program, *arguments = words
    if program == "git":
        return subprocess.run(words, check=True, timeout=60, capture_output=True, text=True).stdout
    runs = program == "muster" and parse(arguments) in OFFLINE and not ELSEWHERE & set(arguments)
    assert runs, f"no test runs this: {' '.join(words)}"
    code = main(arguments)
    printed = "".join(capsys.readouterr())
    assert code == 0, printed
    return printed


def run_yaml(text: str, _: Capture) -> None:
    """A stack or some of its sections, or a table of prices."""
    found = yaml.safe_load(text)
    if "prices" in found:
        assert isinstance(prices.read(found), prices.PriceTable)
        return
    sections = found.get("config", found)
    assert all(name.startswith(NAMESPACE) for name in sections), "neither sections of a stack nor prices"
    departments = sections.get(DEPARTMENTS, TEAM)
    if "muster:pools" not in sections:
        departments = merged(LENDER, departments)
    stack, violations = examine(Document("stack", {**REST, **sections, DEPARTMENTS: departments}))
    assert [str(each) for each in violations if each.level == "error"] == []
    assert stack is not None


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {
        name: merged(below[name], above[name])
        for name in below.keys() & above
        if isinstance(below[name], dict)
    }
    return below | above | both


def run_json(text: str, _: Capture) -> None:
    """What `--policy-pack-config` reads."""
    rules = {rule.name: rule for rule in RULES}
    for name, given in json.loads(text).items():
        rule = rules[name]
        for setting in given if isinstance(given, dict) else ():
            assert setting in {"enforcementLevel", *rule.thresholds}


EXECUTED: Final[Mapping[str, Callable[[str, Capture], None]]] = MappingProxyType(
    {"console": run_console, "json": run_json, "sh": run_shell, "yaml": run_yaml}
)


def test_a_block_has_the_mark_before_it_or_that_of_its_page() -> None:
    page = ROOT / "x.md"
    text = "# X\n\nA.\n\n```sh\na\n```\n\n<!-- not run: it needs b -->\n\n  ```yaml\n  b: 1\n  ```\n"
    first, second = blocks(page, text)
    assert (first.line, first.language, first.text, first.mark) == (5, "sh", "a\n", None)
    assert second.text == "b: 1\n"
    assert second.mark is not None
    assert second.mark.value == "it needs b"
    (of_page,) = blocks(page, "# X\n\n<!-- run by: tests/x.py -->\n\nA.\n\n```sh\na\n```\n")
    assert of_page.mark is not None
    assert of_page.mark.word == "run by"


@pytest.mark.parametrize(
    "line",
    [
        "muster vaildate",
        "muster diff prod --bse HEAD",
        "kubectl gte pods",
        "make pu",
        "python -m muster.refrence",
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    (words,) = commands(line)
    with pytest.raises(UnknownCommandError):
        check(words)


def test_a_usage_that_the_program_does_not_have_is_found() -> None:
    (of_page,) = blocks(
        ROOT / "x.md",
        "# X\n\n<!-- parsed: usage -->\n\n```usage\nmuster new [OPTIONS] STACK\nmuster nwe\n```\n",
    )
    assert unparsed(of_page) == ["muster nwe"]


def test_commands_are_split_as_a_shell_does() -> None:
    script = "A=1 muster diff a \\\n  --html 'x y' > out | jq . && cd b  # and so on\n"
    assert list(commands(script)) == [["muster", "diff", "a", "--html", "x y"], ["jq", "."], ["cd", "b"]]
    assert list(commands('eval "$(muster local env)"')) == [
        ["muster", "local", "env"],
        ["eval", "SUBSTITUTED"],
    ]
    assert list(typed("$ a \\\n> b\nshown\n$ c\n")) == [("a  b", "shown\n"), ("c", "")]
