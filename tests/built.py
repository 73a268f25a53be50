"""Where the programs and files are that the local plane built: for tests that need some of them and no plane.

Taken from the file that MUSTER_ARTIFACTS names, or from the local plane's cache.
"""

from __future__ import annotations

from pathlib import Path

from localplane.bare.programs import artifacts, newest


def program(name: str) -> Path | None:
    named = artifacts().get("programs", {}).get(name)
    return Path(named) if named else newest(f"bin/{name}/*/{name}")


def tools() -> Path | None:
    """The folder with everything that `pulumi` needs on PATH."""
    named = artifacts().get("path")
    return Path(named) if named else newest("path/programs/*")


def provisioning_requests() -> Path | None:
    """The file with the ProvisioningRequest CRD."""
    named = artifacts().get("crds", {}).get("provisioningrequests")
    return Path(named) if named else newest("assets/provisioningrequest-crd*/*/*provisioningrequests.yaml")


def kuberay() -> Path | None:
    """The folder of KubeRay's kustomization; its CRDs are beside it."""
    named = artifacts().get("kustomize", {}).get("kuberay")
    return Path(named) if named else newest("assets/kuberay-config*/*/default")
