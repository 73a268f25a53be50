"""The security context of every container that Muster runs: the Pod Security Standard `restricted`, and no
writing to its own image.
"""

from muster.render.manifest import Manifest


def restricted_container() -> Manifest:
    """`securityContext` of a container; that of its pod says as whom it runs."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
