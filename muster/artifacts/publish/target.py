"""Which repository a stack's image goes to, and how it comes to be there.

Decides the address, from the stack or from who asks, and makes the repository by the stack's own program and
nothing else of it.
"""

import os
import shutil
import subprocess
from typing import Final

from muster.errors import MusterError
from muster.model.clusters import EksCluster
from muster.model.image_repository import address
from muster.model.stack import Stack

# As components/image_repository.py names them; that room is not imported for two words.
_STEP: Final = {"MUSTER_STEP": "image-repository"}
_RESOURCE: Final = "**image-repository"
_SECONDS: Final = 600


class NoTarget(MusterError):
    """There is no repository to push to; the message says how to name or make one."""


def repository_of(stack: Stack) -> str:
    """`host/path` of the stack's own repository."""
    account = _account(stack.cluster.region) if isinstance(stack.cluster, EksCluster) else ""
    found = address(stack.cluster, account=account)
    if found is None:
        raise NoTarget(
            "this stack's cluster was made by somebody else, and so was its registry: name a repository: "
            "`make image push STACK=... REPOSITORY=host/path`, or --repository host/path."
        )
    return found


def make_repository(name: str) -> None:
    """`pulumi up` of the repository alone; a second time it changes nothing."""
    program = shutil.which("pulumi")
    if program is None:
        raise NoTarget("the Pulumi CLI is not on PATH: install it, or name a repository with --repository.")
    argv = [program, "up", "--yes", "--skip-preview", "--non-interactive", "--stack", name]
    try:
        done = subprocess.run(
            [*argv, "--target", _RESOURCE], env={**os.environ, **_STEP}, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise NoTarget(
            f"`pulumi up` of the repository did not end in {_SECONDS} s; run this again: it goes on."
        ) from None
    if done.returncode != 0:
        raise NoTarget("the repository could not be made; what the engine says is above.")


def _account(region: str) -> str:
    """The AWS account that the credentials are of."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    limits = Config(connect_timeout=10, read_timeout=30, retries={"max_attempts": 3, "mode": "standard"})
    try:
        return str(boto3.client("sts", region_name=region, config=limits).get_caller_identity()["Account"])
    except (BotoCoreError, ClientError) as error:
        raise NoTarget(f"no credentials for AWS: {error}. Run `aws sso login`, then this again.") from None
