"""What holds for every command: help, exit codes, options that mean the same, and Ctrl-C."""

import os
import pty
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import click
import pytest
from click.shell_completion import ShellComplete

from muster.cli import main
from muster.cli.command import Command, load
from muster.cli.run import root
from muster.cli.table import TABLE, walk
from muster.errors import ExitCode, MusterError
from tests.waiting import PATIENCE

ROOT: Final = Path(__file__).resolve().parents[3]
ENTRIES: Final = list(walk())
COMMANDS: Final = [path for path, entry in ENTRIES if not entry.commands]


def command(path: tuple[str, ...]) -> Command:
    found = load(path, dict(ENTRIES)[path])
    assert isinstance(found, Command)
    return found


def named(paths: list[tuple[str, ...]]) -> list[str]:
    return [" ".join(path) for path in paths]


@pytest.mark.parametrize("path", [path for path, _ in ENTRIES], ids=" ".join)
def test_help_answers_with_summary_and_exit_codes(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path, "--help"]) == ExitCode.DONE
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.startswith(f"Usage: muster {' '.join(path)} ")
    if path in COMMANDS:
        assert "\nExamples:\n  " in shown.out
        for code in ExitCode:
            assert f"\n  {int(code):<4} " in shown.out
    else:
        assert "\nCommands:\n" in shown.out


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_an_unknown_option_is_unusable_input(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*path, "--no-such-option"]) == ExitCode.UNUSABLE
    if path == ("bench",):
        return  # Its options are those of the benchmark, which names them itself.
    error, fix = capsys.readouterr().err.splitlines()
    assert error.startswith("Error: ")
    assert "--no-such-option" in error
    assert fix == f"Fix: see `muster {' '.join(path)} --help`."


def test_an_argument_too_many_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "prod", "dev"]) == ExitCode.UNUSABLE
    error, fix = capsys.readouterr().err.splitlines()
    assert error == "Error: the command takes no more than STACK, and was given dev as well."
    assert fix == "Fix: see `muster show --help`."


def test_completion_is_silent_where_an_extra_is_missing() -> None:
    """What it printed would stand in the line that the user is typing."""
    code = "import sys; sys.modules['cryptography'] = None; from muster.cli import main; sys.exit(main([]))"
    typed = {"_MUSTER_COMPLETE": "bash_complete", "COMP_WORDS": "muster local up --", "COMP_CWORD": "3"}
    asked = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **typed}, capture_output=True, text=True, cwd=ROOT
    )
    assert (asked.stdout, asked.stderr) == ("", "")


def test_completion_knows_the_keys_of_a_stack() -> None:
    found = ShellComplete(root(), {}, "muster", "_MUSTER_COMPLETE").get_completions(
        ["explain"], "gangAdmission.prov"
    )
    assert "gangAdmission.provisionTimeout" in [each.value for each in found]


def test_everything_that_is_missing_is_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--team", "vision"]) == ExitCode.UNUSABLE
    assert (
        capsys.readouterr().err
        == "Error: Missing: FILE..., --stack STACK.\nFix: see `muster check --help`.\n"
    )
    assert main(["new", "gpu"]) == ExitCode.UNUSABLE
    assert "Missing: --provider [gke|eks|existing|local]." in capsys.readouterr().err


def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image"]) == ExitCode.UNUSABLE
    assert capsys.readouterr().err.startswith("Usage: muster image [OPTIONS] COMMAND")


def test_a_folder_is_not_taken_for_a_stack_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "Pulumi.x.yaml"
    folder.mkdir()
    for name in ("validate", "diff"):
        assert main([name, str(folder)]) == ExitCode.UNUSABLE
        shown = capsys.readouterr()
        assert "this is a folder, not a stack file" in shown.out + shown.err


def test_a_report_that_cannot_be_written_is_named_with_the_fix(capsys: pytest.CaptureFixture[str]) -> None:
    page = "/dev/null/page.html"
    assert main(["diff", str(ROOT / "stacks/Pulumi.local.yaml"), "--html", page]) == ExitCode.UNUSABLE
    error, fix = capsys.readouterr().err.splitlines()[-2:]
    assert error == f"Error: {page}: cannot be written: Not a directory."
    assert fix == "Fix: name a file that you may write to, in a folder that exists."


def test_a_closed_standard_output_leaves_no_traceback() -> None:
    command = f"{sys.executable} -m muster validate >&-"
    done = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert done.returncode == ExitCode.UNUSABLE
    assert done.stderr.startswith("Error: standard output is closed.\nFix: ")


def test_a_working_directory_that_is_gone_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["validate"]) == ExitCode.UNUSABLE
    error, fix = capsys.readouterr().err.splitlines()
    assert (error, fix) == ("Error: the working directory is gone.", "Fix: change into one that exists.")


def _value(parameter: click.Parameter) -> list[str]:
    """Anything that the parameter accepts."""
    value = "1"
    if isinstance(parameter.type, click.Choice):
        value = parameter.type.choices[0]
    elif isinstance(parameter.type, click.Path):
        value = __file__ if parameter.type.file_okay else str(Path(__file__).parent)
    return [value] if isinstance(parameter, click.Argument) else [parameter.opts[0], value]


def test_a_real_ctrl_c_ends_a_command_that_waits(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    os.mkfifo(report)
    with subprocess.Popen(
        [sys.executable, "-m", "muster", "ci", "comment", str(report)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        with report.open(
            "w"
        ):  # Opens as soon as the command reads: from here on it waits for the first line.
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == ExitCode.INTERRUPTED
        assert process.stderr is not None
        assert process.stderr.read() == "Error: interrupted.\n"


def test_a_reader_that_goes_away_leaves_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "muster", "validate", "--json"]
    done = subprocess.run(
        command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (ExitCode.OUTSIDE, "")


def test_an_error_of_several_lines_keeps_its_indentation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text("config:\n  muster:cluster: {provider: aws}\n  muster:pools: {}\n", encoding="utf-8")
    assert main(["doctor", str(file)]) == ExitCode.UNUSABLE
    first, second, third, *_ = capsys.readouterr().err.splitlines()
    assert first == f"Error: {file}: muster:departments: is missing."
    assert third.startswith(f"{file}:2: muster:cluster.provider: ")
    assert second.startswith("    ")
    assert second.lower().startswith("    fix: ")


@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "Error: interrupted.\n"),
        (
            MusterError("the registry is \x1b[31mdown.", fix="try again.", exit_code=ExitCode.OUTSIDE),
            ExitCode.OUTSIDE,
            "Error: the registry is down.\nFix: try again.\n",
        ),
    ],
    ids=["Ctrl-C", "an error"],
)
@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_what_ends_a_command_is_printed_with_its_exit_code(
    path: tuple[str, ...],
    error: BaseException,
    code: ExitCode,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def failing(_: click.Context) -> None:
        raise error

    found = command(path)
    monkeypatch.setattr(found, "invoke", failing)
    arguments = [_value(each) for each in found.params if each.required]
    assert main([*path, *(part for argument in arguments for part in argument)]) == code
    assert capsys.readouterr().err == printed


def test_shared_options_mean_the_same_everywhere() -> None:
    """The same flag has the same help in every command, except where it may be repeated."""
    helps: dict[str, dict[str, list[str]]] = {}
    for path in COMMANDS:
        for each in command(path).params:
            if isinstance(each, click.Option) and not each.multiple:
                for flag in {"--json", "--context", "--quiet", "--name"} & set(each.opts):
                    helps.setdefault(flag, {}).setdefault(each.help or "", []).append(" ".join(path))
    assert set(helps["--quiet"].popitem()[1]) == set(named(COMMANDS))
    assert len(helps["--context"]) == 1
    assert len(helps["--json"]) == 1
    of_local = [paths for paths in helps["--name"].values() if "local up" in paths]
    assert of_local
    assert all(path.startswith("local ") for path in of_local[0])


def test_a_stack_is_always_the_first_positional() -> None:
    for path in COMMANDS:
        parameters = command(path).params
        names = [each.name for each in parameters if isinstance(each, click.Argument)]
        assert not ({"stack", "stacks"} & set(names[1:])), f"muster {' '.join(path)} {names}"
        options = {
            flag for each in command(path).params if isinstance(each, click.Option) for flag in each.opts
        }
        # The first positional of these is the job, which may be for several stacks.
        assert "--stack" not in options or path in {("check",), ("why",), ("submit",)}


def test_the_exit_codes_are_a_table_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for code in ExitCode:
        assert f"  {int(code):<3}  {code.meaning[:40]}" in shown
    for name, entry in TABLE.items():
        assert f"  {name}" in shown
        assert entry.summary[:30] in shown


def test_a_typing_mistake_is_answered_with_the_command_that_is_near(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["vaildate"]) == ExitCode.UNUSABLE
    assert "there is no command 'vaildate'. Did you mean 'validate'?" in capsys.readouterr().err
    assert main(["status"]) == ExitCode.UNUSABLE
    assert "there is no command 'status'. Did you mean 'top' or 'local status'?" in capsys.readouterr().err
    assert main(["-V"]) == 0
    assert main(["local"]) == ExitCode.UNUSABLE


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return done.stdout.strip()


def test_help_of_the_root_imports_no_command() -> None:
    code = (
        "import sys; from muster.cli import main; main(['--help']);"
        "print([name for name in sys.modules if name.startswith(('muster.cli.commands', 'muster.config',"
        " 'yaml', 'rich', 'pulumi', 'aiohttp'))])"
    )
    assert _python(code).splitlines()[-1] == "[]"


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert capsys.readouterr().out == f"muster {version}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_a_shell_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "_MUSTER_COMPLETE" in capsys.readouterr().out


def test_completion_knows_commands_options_and_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    complete = ShellComplete(root(), {}, "muster", "_MUSTER_COMPLETE")

    def words(given: list[str], incomplete: str) -> list[str]:
        return [each.value for each in complete.get_completions(given, incomplete)]

    assert words(["local"], "st") == ["status", "story"]
    assert "--head-plan" in words(["diff"], "--head")
    assert "gke-prod" in words(["doctor"], "gke")
    assert words(["check", "--stack", "local", "--team"], "team-") == ["team-a", "team-b", "team-c"]
    assert {"team-a", "ranking"} <= set(words(["diff", "--explain"], ""))


def test_colour_is_for_terminals_alone_and_no_color_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(environment: dict[str, str]) -> str:
        parent, child = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-m", "muster", "--help"],
            cwd=ROOT,
            stdout=child,
            stderr=child,
            env={**os.environ, **environment},
        ) as process:
            os.close(child)
            read = b""
            try:
                while part := os.read(parent, 65536):
                    read += part
            except OSError:  # Linux ends a terminal whose other side is closed in this way.
                pass
            assert process.wait(PATIENCE) == 0
        os.close(parent)
        return read.decode()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1mCommands:" in shown({"TERM": "xterm"})
    assert "\x1b" not in shown({"TERM": "xterm", "NO_COLOR": "1"})
    done = subprocess.run(
        [sys.executable, "-m", "muster", "--help"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert "\x1b" not in done.stdout
