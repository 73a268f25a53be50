"""python -m tests.changed [--base REVISION] [--all] [--list]: run the tests that a change can break.

A test depends on what it imports, on what those modules import, on its helpers and conftest files,
and on the programs that it starts. `-m muster` in a command line counts as an import of every command.
A string that names a package (`"muster.controller"`) counts as an import of all of it, and a string that
begins with a folder of the checkout (`"docs"`, `"stacks"`) as a reader of that folder. `_PROGRAMS` has
what other processes run without such a string. A changed file that nothing here can place selects every test.

Without `--all` it leaves out what `make test` does (length.py), and names it.
The exit code is that of `python -m tests.budget`: 0 when every suite passed, 1 when one failed.
"""

import argparse
import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import grimp

from tests import budget, length
from tests.budget import ROOT, SUITES, Suite

# What the tests of a folder run in other processes: the engine's program, a wheel, an image, a local cluster.
_PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "tests/e2e/": ("muster",),
    "tests/clouds/": ("muster.components", "muster.policies", "muster.provider", "muster.config"),
    "tests/policies/": ("muster.policies",),
    "tests/integration/images/": ("muster.controller", "muster.artifacts", "muster.local"),
    "tests/integration/local/": ("muster.local", "muster.cli", "muster.components", "muster.provider"),
    "tests/integration/package/": ("muster",),
    "tests/integration/library/": ("muster.components", "muster.provider"),
}
# What only describes the checkout to people and tools: no test reads it.
_UNREAD: Final = (
    ".editorconfig",
    ".gitignore",
    ".github/",
    ".devcontainer/",
    "LICENSE",
    "NOTICE",
    "CHANGELOG.md",
    "tests/alike.toml",
    "tests/mutants.jsonl",
    "tests/mutants.md",
)
# Suites that `make test` runs, in its order; `check` and `build` always run.
_NEED_NO_BUILD: Final = {"unit", "mocks"}
_ON_DEMAND: Final = ("tests/karpenter/", "tests/gpu/", "tests/integration/real_kai/")
_TESTS: Final = ("unit", "mocks", "policies", "browser", "integration", "faults", "local", "clouds", "e2e")


@dataclass(frozen=True, slots=True)
class Selection:
    """`chosen` and `skipped`: files below tests/. `unplaced`: changed files that select everything."""

    chosen: frozenset[str]
    skipped: frozenset[str]
    unplaced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Needs:
    """What one file below tests/ depends on by itself. `words`: its strings up to their first slash."""

    modules: frozenset[str]
    helpers: frozenset[str]
    words: frozenset[str]


def select(changed: Iterable[str], root: Path = ROOT) -> Selection:
    """Choose the test files that a change of the paths `changed`, relative to `root`, can break."""
    graph, needs = _read_checkout(root)
    tests = frozenset(path for path in needs if Path(path).name.startswith("test_"))
    modules: set[str] = set()
    touched: set[str] = set()
    words: set[str] = set()
    unplaced: list[str] = []
    for path in changed:
        if path.startswith(_UNREAD):
            continue
        if path.startswith("tests/"):
            folder = f"{Path(path).parent}/"
            touched |= {path} if path in needs else {name for name in needs if name.startswith(folder)}
        elif path.startswith(("muster/", "components/", "policies/")):
            modules |= _modules_of(path, graph.modules)
        elif "/" in path or path.endswith(".md"):
            words.add(path.partition("/")[0])
        else:
            unplaced.append(path)
    if unplaced:
        return Selection(tests, frozenset(), tuple(unplaced))
    modules |= {user for module in modules & graph.modules for user in graph.find_downstream_modules(module)}

    def can_break(test: str) -> bool:
        packages = next((names for folder, names in _PROGRAMS.items() if test.startswith(folder)), ())
        if any(_within(module, packages) for module in modules):
            return True
        files = _closure(test, needs)
        return any(
            name in touched or needs[name].modules & modules or needs[name].words & words for name in files
        )

    chosen = frozenset(filter(can_break, tests))
    return Selection(chosen, tests - chosen, ())


@cache
def imports(test: str, root: Path = ROOT) -> frozenset[str]:
    """The product's modules that a test file imports, by itself or by its helpers."""
    _, needs = _read_checkout(root)
    return frozenset().union(*(needs[name].modules for name in _closure(test, needs)))


def importers(path: str, root: Path = ROOT) -> frozenset[str]:
    """The test files that import the product's file at `path`."""
    graph, needs = _read_checkout(root)
    modules = _modules_of(path, graph.modules)
    tests = (name for name in needs if Path(name).name.startswith("test_"))
    return frozenset(test for test in tests if imports(test, root) & modules)


def _modules_of(path: str, modules: Iterable[str]) -> set[str]:
    """The module in the file, or every module of the nearest package where the file is none: its data."""
    source = Path(path if path.startswith("muster/") else f"muster/{path}")
    names = set(modules)
    if source.suffix == ".py":
        return {".".join(source.with_suffix("").parts).removesuffix(".__init__")}
    package = next((name for parent in source.parents if (name := ".".join(parent.parts)) in names), "muster")
    return {name for name in names if _within(name, (package,))}


def _within(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


@cache
def _read_checkout(root: Path) -> tuple[grimp.ImportGraph, dict[str, Needs]]:
    """The product's imports, and what each file below tests/ depends on."""
    graph = grimp.build_graph("muster", cache_dir=None)
    modules = frozenset(graph.modules)
    sources = sorted(path for path in (root / "tests").rglob("*.py") if "__pycache__" not in path.parts)
    return graph, {str(path.relative_to(root)): _read_needs(path, modules) for path in sources}


def _read_needs(path: Path, known: frozenset[str]) -> Needs:
    """What one file imports, and what it names as a string."""
    imported: set[str] = set()
    started: set[str] = set()
    words: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
        elif isinstance(node, ast.List | ast.Tuple | ast.Call):
            arguments = node.args if isinstance(node, ast.Call) else node.elts
            started.update({"muster.cli"} if {"-m", "muster"} <= set(map(_text, arguments)) else ())
        elif text := _text(node):
            started.update({text} if text.startswith("muster.") else ())
            words.add(text.partition("/")[0])
    # The command line imports a command by its name when it runs.
    started |= imported & {"muster.cli"}
    words |= {name.partition(".")[0] for name in imported} & {"bench", "release"}
    files = {name.replace(".", "/") for name in imported if name.startswith("tests.")}
    return Needs(
        modules=frozenset(name for name in known if name in imported or _within(name, started)),
        helpers=frozenset(path for name in files for path in (f"{name}.py", f"{name}/__init__.py")),
        words=frozenset(words),
    )


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _closure(test: str, needs: Mapping[str, Needs]) -> set[str]:
    """The test, its helpers and theirs, and the conftest files of its folders."""
    waiting = [test, *(f"{folder}/conftest.py" for folder in Path(test).parents)]
    files: set[str] = set()
    while waiting:
        if (name := waiting.pop()) in needs and name not in files:
            files.add(name)
            waiting += needs[name].helpers
    return files


def _suite(suite: Suite, chosen: Iterable[str]) -> Suite | None:
    """The suite on the chosen files alone; None where it has none of them."""
    commands: list[tuple[str, ...]] = []
    for command in suite.commands:
        folders = [word for word in command if word.startswith("tests/")]
        ignored = tuple(word.removeprefix("--ignore=") for word in command if word.startswith("--ignore="))
        files = sorted(
            name
            for name in chosen
            if name.startswith(tuple(f"{folder}/" for folder in folders))
            and not name.startswith(tuple(f"{folder}/" for folder in ignored))
        )
        if files:
            commands.append((*(word for word in command if word not in folders), *files))
    return replace(suite, commands=tuple(commands)) if commands else None


def _changed_paths(base: str) -> list[str]:
    """Paths that differ from where the branch left `base`, with what is not committed yet."""
    since = _git("merge-base", base, "HEAD").strip()
    listed = _git("diff", "--name-only", "--no-renames", since) + _git(
        "ls-files", "--others", "--exclude-standard"
    )
    return sorted(set(listed.splitlines()))


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ("git", *arguments), cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        sys.exit(
            f"Error: git {' '.join(arguments)}: {done.stderr.strip()}. Fix: name a revision with --base."
        )
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.changed", description=__doc__)
    parser.add_argument("--base", default="origin/main", help="the revision to compare with [origin/main]")
    parser.add_argument("--all", action="store_true", help="what `make test-all` runs, too")
    parser.add_argument("--list", action="store_true", help="print the chosen files and run nothing")
    options = parser.parse_args(arguments)
    selection = select(_changed_paths(options.base))
    if options.list:
        print(*sorted(selection.chosen), sep="\n")
        return 0
    for path in selection.unplaced:
        print(f"{path} can change what any test does: all of them run")
    later: set[str] = set()
    if not options.all:
        os.environ[length.VARIABLE] = length.SHORT
        later = set(filter(length.is_long, selection.chosen))
    chosen = selection.chosen - later
    suites = {name: suite for name in _TESTS if (suite := _suite(SUITES[name], chosen))}
    skipped = [name for name in _TESTS if name not in suites]
    print(f"This change can break {len(selection.chosen)} test files; {len(selection.skipped)} are left out.")
    if later:
        print("It can also break what `make test-all` runs, or this command with ALL=1:", *sorted(later))
    if skipped:
        print(f"Suites left out as a whole: {', '.join(skipped)}")
    if any(name.startswith(_ON_DEMAND) for name in selection.chosen):
        on_demand = "make test-karpenter, make test-kai, python -m pytest tests/gpu"
        print(f"It can also break what runs on demand: {on_demand}")
    before = [SUITES["check"], *([SUITES["build"]] if suites.keys() - _NEED_NO_BUILD else [])]
    return budget.run([*before, *suites.values()])


if __name__ == "__main__":
    sys.exit(main())
