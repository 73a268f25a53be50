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
MOUNT: Final = Path("/sys/fs/cgroup")
CONTAINERS: Final = "k8s.io"
"""The group of all containers: containerd's default parent, by its namespace."""
# A kubelet gives its pods the share of one session for each processor: here four nodes with two each.
_SESSIONS: Final = 8


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
    is_unified = (MOUNT / "cgroup.controllers").exists()
    group = (MOUNT if is_unified else MOUNT / "cpu") / CONTAINERS
    file, of_one_session = ("cpu.weight", 100) if is_unified else ("cpu.shares", 1024)
    with contextlib.suppress(OSError):
        group.mkdir(exist_ok=True)
        (group / file).write_text(str(_SESSIONS * of_one_session))
