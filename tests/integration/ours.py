"""Our manager and the simulated autoscaler as processes of a test."""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from tests.envtest.process import Process

_ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Ours:
    """Those that run now, by name. Each has a log in `folder`, which goes on where it is started again."""

    folder: Path
    _running: dict[str, Process] = field(default_factory=dict)

    def start_manager(self, kubeconfig: Path, *flags: str) -> None:
        """One that asks nobody whether it leads. It reads JSON only."""
        config = self.folder / "manager.json"
        config.write_text(json.dumps(yaml.safe_load(kubeconfig.read_text())))
        always = ("--no-leader-elect", "--health-port=0", f"--kubeconfig={config}")
        self._start("manager", "muster.controller", "manager", *always, *flags)

    def start_autoscaler(self, kubeconfig: Path) -> None:
        """Ten times as fast as a cloud, and without a machine that it could start."""
        flags = ("--control", str(self.folder / "nobody.sock"), "--clock-scale", "10")
        self._start("autoscaler", "muster.local.simulated_cloud", "--kubeconfig", str(kubeconfig), *flags)

    def kill(self, program: str) -> None:
        self._running.pop(program).kill()

    def kill_all(self) -> None:
        for program in list(self._running):
            self.kill(program)

    def logs(self, *, most: int = 4000) -> str:
        """The last of each, so many letters."""
        files = sorted(self.folder.glob("*.log"))
        return "\n".join(f"== {file.name}\n{file.read_text()[-most:]}" for file in files)

    def _start(self, program: str, *arguments: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONUNBUFFERED": "1"}
        argv = [sys.executable, "-m", *arguments]
        log = self.folder / f"{program}.log"
        self._running[program] = Process(program, argv, log=log, environment=environment)
        self._running[program].start()
