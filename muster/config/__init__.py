"""Reads a stack file into the model. Every mistake is reported with its path, its line and its fix.

    load(path)                  -> Stack, from a stack file
    parse(values, source=path)  -> Stack, from the values that the Pulumi engine passes; the file is read
    only for
                                   line numbers

Both raise ConfigError.
"""

from muster.config.document import ConfigError
from muster.config.stack import load, parse

__all__ = ["ConfigError", "load", "parse"]
