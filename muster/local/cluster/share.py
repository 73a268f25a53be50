"""The share of the processors that a local cluster gets beside everything else that the machine does.

Linux shares them by session where it groups automatically (sched(7), read on 2026-11-30), and by control
group: all containers of all nodes are in one, which would get no more than one other session. Beside thirty
busy sessions the API server then answers so late that every leader loses its lease.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

FIRST: Final = -10
"""The nice value of what everybody waits for."""
_MOUNT: Final = Path("/sys/fs/cgroup")
_PARENT: Final = "k8s.io"  # containerd's default parent, by its namespace
# A kubelet gives its pods 1,024 shares for each processor; four nodes have this machine's two.
_SHARES: Final = 8192
_WEIGHT: Final = 800  # of 100, as 8,192 are of 1,024


def give_session(pid: int, nice: int) -> None:
    """Let the session that process `pid` leads compute earlier (below 0) or later than others.

    Without the rights, or where the kernel does not group, the process alone as far as it may.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, nice)
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def give_containers() -> None:
    """Let the containers have the share of the nodes on which they run."""
    unified = (_MOUNT / "cgroup.controllers").exists()
    group = (_MOUNT if unified else _MOUNT / "cpu") / _PARENT
    with contextlib.suppress(OSError):
        group.mkdir(exist_ok=True)
        (group / ("cpu.weight" if unified else "cpu.shares")).write_text(str(_WEIGHT if unified else _SHARES))
