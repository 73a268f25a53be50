"""What the local plane built, with stand-ins for the chart and the image that nobody can build here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.clouds import recording
from tests.clouds.engine import ROOT


def built(folder: Path) -> Path:
    """The plane's own artifacts.json; what is missing is built."""
    file = folder / "built.json"
    command = [sys.executable, "-m", "localplane.build", "--artifacts", str(file)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=600, stdout=subprocess.DEVNULL)
    return file


def completed(plain: Path, folder: Path) -> Path:
    """The artifacts of a file, and what a stack of a cloud needs beside them."""
    found = json.loads(plain.read_text())
    # Nothing starts it: nodes that run containers have another autoscaler.
    found["images"]["cluster-autoscaler"] = found["images"]["pause"]
    found["charts"]["gpu-operator"] = str(
        recording.chart(
            folder / "gpu-operator", name="gpu-operator", version="26.7.0", paths=recording.GPU_OPERATOR
        )
    )
    file = folder / "artifacts.json"
    file.write_text(json.dumps(found))
    return file
