"""A real NVIDIA GPU and NVIDIA's own device plugin and feature discovery, on a machine that has them.

`MUSTER_GPU_PROGRAMS=FOLDER python -m pytest tests/gpu`, as root. The folder has `gpu-feature-discovery` and
`nvidia-device-plugin`, built from `./cmd` of github.com/NVIDIA/k8s-device-plugin.
"""
