"""Says of what, by what and when the files of a release were made.

An in-toto statement with SLSA's provenance. The signature of the checksums covers it (signing.py).
https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
https://slsa.dev/spec/v1.0/provenance
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Final

_BUILD_TYPE: Final = "urn:muster:make-release:v1"
_BY_HAND: Final = "urn:muster:by-hand"


def statement(
    digests: Mapping[str, str],
    *,
    commit: str,
    inputs: Mapping[str, str],
    version: str,
    started: datetime,
    finished: datetime,
) -> bytes:
    """`digests`: name of a file -> SHA-256 in hex, of what was made. `inputs`: the same of the lock files
    that the build installs from.
    """
    resolved = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(inputs.items())]
    written = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(digests.items())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": {"version": version},
                "resolvedDependencies": [{"name": "source", "digest": {"gitCommit": commit}}, *resolved],
            },
            "runDetails": {
                "builder": {"id": _builder()},
                "metadata": {
                    "invocationId": str(uuid.uuid4()),
                    "startedOn": _written(started),
                    "finishedOn": _written(finished),
                },
            },
        },
    }
    return json.dumps(written, indent=1).encode() + b"\n"


def _builder() -> str:
    """The workflow's file on GitHub:
    https://docs.github.com/en/actions/reference/workflows-and-actions/variables
    """
    workflow = os.environ.get("GITHUB_WORKFLOW_REF", "")
    return f"{os.environ['GITHUB_SERVER_URL']}/{workflow}" if workflow else _BY_HAND


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
