"""Exports what another program needs of a cluster: the kubeconfig of CLUSTER_KUBECONFIG, and its context."""

import os
from pathlib import Path

import pulumi

pulumi.export("kubeconfig", pulumi.Output.secret(Path(os.environ["CLUSTER_KUBECONFIG"]).read_text()))
pulumi.export("context", os.environ["CLUSTER_CONTEXT"])
