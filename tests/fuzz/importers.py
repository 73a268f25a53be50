"""The importers, each with files that it takes."""

import gzip
import io
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from muster import config
from muster.check import manifests
from muster.cli import main
from muster.errors import ExitCode
from muster.live.snapshot import Snapshot, format_snapshot, load_snapshot
from muster.local.builder import bundle
from muster.local.builder.bundle import Part
from muster.local.builder.cache import Cache
from muster.model.stack import Scheduler
from muster.preview.plan import load_plan
from muster.replay.recording_file import load_recording

_ROOT: Final = Path(__file__).parents[2]
_PINS: Final = "fuzz"
_CSV: Final = b"id,team,submitted,duration,gpus\na,vision,0,60,1\nb,speech,30,3600,8\n"
_SACCT: Final = b"""\
JobID|Account|Submit|Start|End|State|ReqTRES|NNodes|Partition|QOS
7|vision|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:00:00|COMPLETED|cpu=4,gres/gpu=8|1|gpu|high
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """`read` gets the path of a file whose name ends with `ending`."""

    ending: str
    seeds: tuple[bytes, ...]
    read: Callable[[Path], object]


def importers() -> Mapping[str, Importer]:
    """By name."""
    stacks = tuple(path.read_bytes() for path in sorted((_ROOT / "stacks").glob("Pulumi.*.yaml")))
    jobs = tuple(path.read_bytes() for path in sorted((_ROOT / "examples").rglob("ray*.yaml"))[:10])
    recording, packed = (_recording(ending) for ending in (".jsonl", ".jsonl.gz"))
    return {
        "recording": Importer(ending=".jsonl", seeds=(recording,), read=load_recording),
        "packed recording": Importer(ending=".jsonl.gz", seeds=(packed,), read=load_recording),
        "jobs as CSV": Importer(
            ending=".csv", seeds=(_CSV, gzip.compress(_CSV)), read=lambda path: _imported(path, "csv")
        ),
        "jobs of Slurm": Importer(ending=".txt", seeds=(_SACCT,), read=lambda path: _imported(path, "sacct")),
        "snapshot": Importer(ending=".json", seeds=(_snapshot(),), read=load_snapshot),
        "plan": Importer(
            ending=".json", seeds=((_ROOT / "tests/unit/preview/plan.json").read_bytes(),), read=load_plan
        ),
        "bundle": Importer(ending=".tar.gz", seeds=(_bundle(),), read=_imported_bundle),
        "stack": Importer(ending=".yaml", seeds=stacks, read=config.load),
        "manifests": Importer(
            ending=".yaml", seeds=jobs, read=lambda path: manifests.read(manifests.read_text(path), "jobs")
        ),
    }


def _imported(path: Path, kind: str) -> None:
    """By the command: `main` reports one error, or lets what it does not expect pass."""
    out = path.with_name("out.jsonl")
    out.unlink(missing_ok=True)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
        code = main(["record", "import", str(path), "--from", kind, "--out", str(out)])
    assert code in (ExitCode.DONE, ExitCode.UNUSABLE), said.getvalue()


def _recording(ending: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "jobs.csv", Path(folder) / f"out{ending}"
        source.write_bytes(_CSV)
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            assert main(["record", "import", str(source), "--out", str(out)]) == ExitCode.DONE
        return out.read_bytes()


def _snapshot() -> bytes:
    taken = datetime(2026, 11, 27, tzinfo=UTC)
    return format_snapshot(Snapshot(taken=taken, scheduler=Scheduler.KUEUE, queues=())).encode()


def _bundle() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        cache, target = Cache(Path(folder) / "cache"), Path(folder) / "bundle.tar.gz"
        entry = cache.entry("assets", "chart", "key")
        with cache.scratch("chart") as scratch:
            tree = scratch / "tree"
            (tree / "deep").mkdir(parents=True)
            (tree / "file").write_text("content")
            (tree / "deep" / "link").symlink_to("../file")
            cache.publish(entry, tree)
        bundle.write(target, [Part(kind="assets", name="chart", key="key", folder=entry.path)], pins=_PINS)
        return target.read_bytes()


def _imported_bundle(path: Path) -> None:
    """Whatever it holds, nothing is written beside the cache, and no link of the cache leads out of it."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        root = Path(folder).resolve()
        bundle.read(path, Cache(root), pins=_PINS)
        for each in root.rglob("*"):
            assert each.resolve().is_relative_to(root), each
