"""Reads a stack file into the model, and says every mistake with its path, its line and its fix.

    load(path)                    -> Stack; raises ConfigError parse(values, source=path)    -> Stack, from
    the values that the Pulumi engine hands over; the file is for line marks artifacts.load()
    -> Artifacts, what the local plane built (env MUSTER_ARTIFACTS)

`muster validate FILES... [--json]` and `muster new NAME --provider
gke|eks|existing`.
"""

from muster.config.errors import ConfigError
from muster.config.stack import load, parse

__all__ = ["ConfigError", "load", "parse"]
