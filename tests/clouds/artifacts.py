"""What the local cluster built, with stand-ins for the chart and the image that cannot be built here."""

import json
from pathlib import Path

from tests.clouds import recording


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
