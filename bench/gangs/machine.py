"""Where a run was done: figures mean little without it."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """`load` is the load average of a minute when the run began: what else it was doing."""

    cores: int
    memory_gib: int
    processor: str
    system: str
    load: float

    def __str__(self) -> str:
        return f"{self.cores} cores ({self.processor}), {self.memory_gib} GiB, {self.system}"


def here() -> Machine:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        cores=os.cpu_count() or 1,
        memory_gib=round(pages / 2**30),
        processor=_read_field("/proc/cpuinfo", "model name", ":") or platform.machine(),
        system=_read_field("/etc/os-release", "PRETTY_NAME", "=").strip('"') or platform.system(),
        load=os.getloadavg()[0],
    )


def _read_field(path: str, key: str, mark: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(mark)[2].strip() for line in lines if line.startswith(key)), "")
