"""A program that runs inside a pod for as long as a test talks to it: lines in, lines out."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.local_cluster import Muster


@dataclass(slots=True)
class Driver:
    """`tell` gives it a line, `has_said` judges what it answers to that."""

    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)
    told: int = 0

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        print(f"driver < {line}", flush=True)
        self.told = len(self.said)
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def has_said(self, line: str) -> bool:
        assert self.process.poll() is None, f"the driver has ended with {self.process.returncode}"
        return line in self.said[self.told :]

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            print(f"driver > {line.rstrip()}", flush=True)
            self.said.append(line.strip())


@contextmanager
def driver(muster: Muster, program: Path, *, pod: str, container: str, namespace: str) -> Iterator[Driver]:
    """The Python program in the container, until the block ends: then its input does."""
    inside = ["python", "-u", "-c", program.read_text()]
    command = ["kubectl", "-n", namespace, "exec", "-i", pod, "-c", container, "--", *inside]
    process = subprocess.Popen(
        command,
        env=muster.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    found = Driver(process)
    threading.Thread(target=found.listen, daemon=True, name="driver").start()
    try:
        yield found
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
