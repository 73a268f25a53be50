"""The programs of the folder that MUSTER_GPU_PROGRAMS names."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def programs() -> Path:
    folder = os.environ.get("MUSTER_GPU_PROGRAMS")
    if not folder:
        pytest.skip("needs an NVIDIA GPU, and NVIDIA's programs in the folder MUSTER_GPU_PROGRAMS")
    return Path(folder).resolve()
