"""What Muster writes and reads of GPUs, against a real one."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from muster.adopt.nodes import shape_of
from muster.model import gpu_operator
from muster.model.accelerators import ACCELERATORS
from muster.model.pools import MIG_PROFILES, GpuSharing, Sharing
from tests.gpu import device_manager
from tests.gpu.device_manager import DevicePlugin

_SECONDS: Final = 60.0
_CONTROL: Final = "nvidia-cuda-mps-control"
# Where the device plugin expects the daemon of this resource (k8s-device-plugin v0.20.0,
# cmd/mps-control-daemon/mps/root.go, read 2026-11-29).
_PIPE: Final = Path("/mps/nvidia.com/gpu/pipe")
_NVML: Final = ("--device-discovery-strategy", "nvml")
_ALONE: Final = GpuSharing()
_FOUR: Final = GpuSharing(kind=Sharing.TIME_SLICING, shares=4)
_FOUR_AT_ONCE: Final = GpuSharing(kind=Sharing.MPS, shares=4)


def test_adopt_knows_the_gpu_by_the_labels_of_its_node(programs: Path, tmp_path: Path) -> None:
    labels = _labels(programs, tmp_path, _ALONE)
    found = shape_of(_node(labels))
    assert found.accelerator in ACCELERATORS, labels
    memory = ACCELERATORS[found.accelerator].memory_mib
    assert memory == found.gpu_memory == int(labels["nvidia.com/gpu.memory"])


@pytest.mark.parametrize("sharing", [_FOUR, _FOUR_AT_ONCE], ids=lambda sharing: sharing.name)
def test_a_shared_gpu_is_another_accelerator_than_the_whole(
    programs: Path, tmp_path: Path, sharing: GpuSharing
) -> None:
    labels = _labels(programs, tmp_path, sharing)
    assert labels["nvidia.com/gpu.replicas"] == str(sharing.shares)
    assert shape_of(_node(labels)).accelerator not in ACCELERATORS, labels


@pytest.mark.parametrize("sharing", [_ALONE, _FOUR, _FOUR_AT_ONCE], ids=lambda sharing: sharing.name)
def test_the_device_plugin_advertises_as_many_gpus_as_the_stack_counts(
    programs: Path, tmp_path: Path, sharing: GpuSharing
) -> None:
    with _plugin(programs, tmp_path, sharing) as plugin:
        assert plugin.resource == "nvidia.com/gpu"
        devices = plugin.devices()
        assert len(devices) == sharing.shares
        given = [plugin.allocate(device) for device in devices]
        assert {each["NVIDIA_VISIBLE_DEVICES"] for each in given} == {_card()}
        pipes = {str(_PIPE)} if sharing.kind is Sharing.MPS else {None}
        assert {each.get("CUDA_MPS_PIPE_DIRECTORY") for each in given} == pipes


def test_mig_profiles_are_those_of_the_gpu(programs: Path, tmp_path: Path) -> None:
    """By the driver's own list, in which a profile stands with the most instances of it on one GPU."""
    accelerator = shape_of(_node(_labels(programs, tmp_path, _ALONE))).accelerator
    listed = _mig_profiles()
    written = MIG_PROFILES[accelerator]
    assert {name: listed.get(name) for name in written} == dict(written), listed


def _labels(programs: Path, folder: Path, sharing: GpuSharing) -> dict[str, str]:
    """Of a node with the configuration that Muster writes for a way of sharing."""
    output = folder / "labels"
    argv = [str(programs / "gpu-feature-discovery"), "--oneshot", "--no-timestamp", *_NVML]
    argv += ["--output-file", str(output), "--config-file", str(_configuration(folder, sharing))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    lines = output.read_text(encoding="utf-8").splitlines()
    print("\n".join(sorted(lines)))
    return dict(line.split("=", 1) for line in lines)


def _configuration(folder: Path, sharing: GpuSharing) -> Path:
    file = folder / "config.yaml"
    file.write_text(gpu_operator.plugin_entry(sharing), encoding="utf-8")
    return file


@contextmanager
def _plugin(programs: Path, folder: Path, sharing: GpuSharing) -> Iterator[DevicePlugin]:
    argv = [str(programs / "nvidia-device-plugin"), *_NVML]
    argv += ["--config-file", str(_configuration(folder, sharing)), "--mps-root", "/mps"]
    log = folder / "plugin.log"
    with (
        _mps_daemon(folder, sharing),
        device_manager.registered() as plugins,
        log.open("wb") as output,
        subprocess.Popen(argv, stdout=output, stderr=output) as process,
    ):
        try:
            yield plugins.get(timeout=_SECONDS)
        finally:
            process.terminate()
            print(log.read_text(encoding="utf-8"))


@contextmanager
def _mps_daemon(folder: Path, sharing: GpuSharing) -> Iterator[None]:
    """The driver's own daemon, without the program that starts it on nodes: that one changes the compute mode
    of the GPU.
    """
    if sharing.kind is not Sharing.MPS:
        yield
        return
    if not shutil.which(_CONTROL):
        pytest.skip(f"needs {_CONTROL}, which comes with the driver")
    _PIPE.mkdir(parents=True, exist_ok=True)
    mps = {"CUDA_MPS_PIPE_DIRECTORY": str(_PIPE), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    env = {**os.environ, **mps}
    subprocess.run([_CONTROL, "-d"], env=env, timeout=_SECONDS, check=True)
    try:
        yield
    finally:
        subprocess.run([_CONTROL], input=b"quit\n", env=env, timeout=_SECONDS, check=True)


def _node(labels: dict[str, str]) -> dict[str, object]:
    size = {"cpu": "16", "memory": "128Gi", "nvidia.com/gpu": labels.get("nvidia.com/gpu.count", "1")}
    return {"metadata": {"labels": labels}, "status": {"capacity": size, "allocatable": size}}


def _card() -> str:
    argv = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=True).stdout.strip()


def _mig_profiles() -> dict[str, int]:
    """NVML's, which answers without MIG mode as well."""
    import pynvml  # type: ignore[import-not-found]  # on the machine with the GPU

    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    found: dict[str, int] = {}
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            profile = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(device, number, version=2)
        except pynvml.NVMLError:
            continue
        found[str(profile.name).removeprefix("MIG ")] = profile.instanceCount
    print(found)
    return found
