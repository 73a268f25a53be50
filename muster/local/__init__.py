"""A real Kubernetes on one Linux machine, and a simulated cloud beneath it.

`muster local up` builds what is missing, opens a network, mount and
process namespace, and starts etcd, the control plane and kubelets in it.
Nothing here knows Muster's model: a local cluster is a cluster like any other.
"""

from __future__ import annotations

from muster.errors import ExitCode, MusterError

# The one error that the local cluster shows to people: where, what, and how to fix it.


class LocalClusterError(MusterError):
    """A failure of the local cluster, with where it happened and its fix."""

    default_exit_code = ExitCode.OUTSIDE

    def __init__(self, where: str, what: str, *, fix: str, exit_code: ExitCode | None = None) -> None:
        super().__init__(f"{where}: {what}", fix=fix, exit_code=exit_code)
        self.where = where
        self.what = what

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.fix}"
