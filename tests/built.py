"""Paths of built programs and files, for tests that need some of them and no local cluster.

Taken from the file that MUSTER_ARTIFACTS names, or from the local cluster's cache. What is not there skips a
test that somebody runs by hand, and fails it in `make test` (tests.budget sets MUSTER_BUILT once the build
has passed): a suite that skips itself must not pass for one that ran.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests import envtest
from tests.envtest import Programs
from tests.envtest.process import artifacts, newest

VARIABLE: Final = "MUSTER_BUILT"


def absent(what: str, *, build: str = "make build") -> NoReturn:
    """Ends a test that lacks something which the command `build` makes."""
    sentence = f"not there: {what}; `{build}` builds it, or MUSTER_ARTIFACTS names it"
    if os.environ.get(VARIABLE):
        pytest.fail(sentence)
    pytest.skip(sentence)


def programs(programs: Sequence[str], assets: Sequence[str] = ()) -> Programs:
    """Programs and assets of a bare control plane, or the end of the test."""
    found = envtest.found(programs, assets)
    return found or absent(", ".join(envtest.missing(programs, assets)))


def program(name: str) -> Path | None:
    return envtest.program(name)


def tools() -> Path:
    """The folder with everything that `pulumi` needs on PATH, or the end of the test."""
    named = artifacts().get("path")
    return Path(named) if named else newest("path/programs/*") or absent("pulumi")


def provisioning_requests() -> Path | None:
    """The file with the ProvisioningRequest CRD."""
    named = artifacts().get("crds", {}).get("provisioningrequests")
    return Path(named) if named else newest("assets/provisioningrequest-crd*/*/*provisioningrequests.yaml")


def kuberay() -> Path:
    """The folder of KubeRay's kustomization, its CRDs beside it, or the end of the test."""
    named = artifacts().get("kustomize", {}).get("kuberay")
    return Path(named) if named else newest("assets/kuberay-config*/*/default") or absent("kuberay")


def chart(name: str) -> Path:
    """The folder of a chart, or the end of the test."""
    named = artifacts().get("charts", {}).get(name)
    return Path(named) if named else newest(f"assets/{name}-chart-*/*") or absent(f"chart {name}")
