"""Measures how long `pulumi preview` takes, by number of teams and by grain, and for the whole program.

    eval "$(muster local env)"       # a cluster with Kueue's CRDs, the CLI and the artifacts on
    PATH python -m bench.preview --teams 10 100 1000 --runs 3 > table.md

Each run starts from an empty state, so that every resource is planned. Measured are wall time and the CPU
time of the engine and its child processes, which depends less on other load of the machine.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.teams import Grain, config_of
from muster.paths import IMPORT_ROOT

ROOT = Path(__file__).parents[1]
WHOLE = "whole program"
_TIMEOUT = 600


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one preview."""

    wall: float
    cpu: float


def main() -> None:
    arguments = _arguments()
    print("| resources | teams | wall s: median (least to most) | CPU s | runs |")
    print("|---|---:|---:|---:|---:|")
    for name in arguments.grains:
        for teams in arguments.teams:
            timings = [measure(name, teams, context=arguments.context) for _ in range(arguments.runs)]
            walls = [each.wall for each in timings]
            cpu = statistics.median(each.cpu for each in timings)
            spread = f"{statistics.median(walls):.1f} ({min(walls):.1f} to {max(walls):.1f})"
            print(f"| {name} | {teams} | {spread} | {cpu:.1f} | {len(timings)} |", flush=True)


def measure(name: str, teams: int, *, context: str) -> Timing:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        prepare = _whole if name == WHOLE else _grain
        return prepare(Path(folder), name, teams, context)


def _whole(folder: Path, _: str, teams: int, context: str) -> Timing:
    """The whole program, with a stack file of this many teams."""
    values = config_of(teams)
    values["muster:cluster"]["context"] = context
    return _preview(ROOT, folder, values, {})


def _grain(folder: Path, name: str, teams: int, context: str) -> Timing:
    variables = {"BENCH_GRAIN": name, "BENCH_TEAMS": str(teams), "BENCH_CONTEXT": context}
    # The engine puts the program's folder alone on sys.path.
    variables["PYTHONPATH"] = str(IMPORT_ROOT)
    return _preview(ROOT / "bench" / "grains", folder, {}, variables)


def _environment(folder: Path) -> dict[str, str]:
    """Separate from the user's: its own state, plugins and passphrase."""
    return os.environ | {
        "PULUMI_BACKEND_URL": (folder / "state").as_uri(),
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }


def _preview(project: Path, folder: Path, values: dict[str, Any], variables: dict[str, str]) -> Timing:
    environment = _environment(folder) | variables
    config = _stack_file(project, folder, values, environment)
    preview = ["preview", "--stack", "bench", "--config-file", str(config), "--suppress-outputs"]
    return _timed(lambda: _pulumi(preview, cwd=project, environment=environment))


def _stack_file(project: Path, folder: Path, values: dict[str, Any], environment: dict[str, str]) -> Path:
    """`stack init` writes to the stack file, so it runs in a copy of the project."""
    name = yaml.safe_load((project / "Pulumi.yaml").read_text())["name"]
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": name, "runtime": "python"}))
    (folder / "state").mkdir()
    _pulumi(["stack", "init", "bench"], cwd=folder, environment=environment)
    config = folder / "Pulumi.bench.yaml"
    initial = yaml.safe_load(config.read_text()) if config.is_file() else {}
    config.write_text(yaml.safe_dump({**(initial or {}), "config": values}))
    return config


def _pulumi(arguments: list[str], *, cwd: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["pulumi", *arguments, "--non-interactive"],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    if done.returncode:
        sys.exit(f"pulumi {arguments[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _timed(work: Callable[[], None]) -> Timing:
    used, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    work()
    wall, now = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Timing(wall, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.preview", description=__doc__)
    parser.add_argument("--teams", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--context", default="muster", help="a context of $KUBECONFIG")
    parser.add_argument("--grains", nargs="+", choices=[*Grain, WHOLE], default=[*Grain, WHOLE])
    return parser.parse_args()


if __name__ == "__main__":
    main()
