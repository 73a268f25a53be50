"""A protected stack refuses to be destroyed at once, not after minutes in which the engine looks for what the
refused resource depends on.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from muster.artifacts import resolved
from muster.components.platform import Platform, PlatformArgs
from muster.components.program import deletion_guard
from muster.config import load
from muster.model.stack import ArtifactSource
from tests.mocks.recorder import Program, run
from tests.mocks.test_cloud_platforms import IMAGE

_FILES = sorted((Path(__file__).parents[2] / "stacks").glob("Pulumi.*.yaml"))
# Those of the local cluster take what was built on this machine.
STACKS = [file for file in _FILES if load(file).artifacts is not ArtifactSource.LOCAL]
# Two seconds of the engine's time; eks-prod once had sixty times as many, and the engine took minutes.
MOST = 2_500_000


def guarded(file: Path) -> Program:
    stack = replace(load(file), images=IMAGE)
    artifacts = resolved.resolve_artifacts(stack, name=file.stem)
    return run(
        lambda: deletion_guard(
            stack.cluster, Platform("muster", PlatformArgs(stack=stack, artifacts=artifacts))
        )
    )


@pytest.mark.parametrize("file", STACKS, ids=lambda file: file.stem)
def test_the_engine_comes_soon_to_the_end_of_what_a_guard_depends_on(file: Path) -> None:
    program = guarded(file)
    (found,) = program.of("muster:index:Guard")
    assert program.paths(found) < MOST
