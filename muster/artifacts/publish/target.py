"""The repository that a stack's image is pushed to.

Responsible for its address, and for creating it with the stack's own program, limited to that one resource.
"""

import os
import shutil
import subprocess
from typing import Final

from muster.errors import MusterError
from muster.model.clusters import EksCluster
from muster.model.programs import address
from muster.model.stack import Stack

# Named as in components/gang_admission.py, which is not imported for two constants.
_STEP: Final = {"MUSTER_STEP": "image-repository"}
_RESOURCE: Final = "**image-repository"
_SECONDS: Final = 600


class PushTargetError(MusterError):
    """There is no repository to push to. The message names a remedy."""


def repository_of(stack: Stack) -> str:
    """`host/path` of the stack's own repository."""
    account = _account(stack.cluster.region) if isinstance(stack.cluster, EksCluster) else ""
    found = address(stack.cluster, account=account)
    if found is None:
        raise PushTargetError(
            "Muster did not make this stack's cluster, so it knows no registry for it.",
            fix="name a repository that the nodes can pull from: --repository HOST/PATH.",
        )
    return found


def make_repository(name: str) -> None:
    """Run `pulumi up` for the repository only. A second run changes nothing."""
    program = shutil.which("pulumi")
    if program is None:
        raise PushTargetError(
            "the Pulumi CLI is not on PATH.", fix="install it, or name a repository with --repository."
        )
    argv = [program, "up", "--yes", "--skip-preview", "--non-interactive", "--stack", name]
    try:
        done = subprocess.run(
            [*argv, "--target", _RESOURCE], env={**os.environ, **_STEP}, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise PushTargetError(
            f"`pulumi up` of the repository did not finish within {_SECONDS} s.",
            fix="run the command again to continue.",
        ) from None
    if done.returncode != 0:
        raise PushTargetError("the repository could not be made; see the engine's output above.")


def _account(region: str) -> str:
    """The AWS account of the credentials."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    limits = Config(connect_timeout=10, read_timeout=30, retries={"max_attempts": 3, "mode": "standard"})
    try:
        return str(boto3.client("sts", region_name=region, config=limits).get_caller_identity()["Account"])
    except (BotoCoreError, ClientError) as error:
        raise PushTargetError(
            f"no credentials for AWS: {error}.", fix="run `aws sso login`, then this again."
        ) from None
