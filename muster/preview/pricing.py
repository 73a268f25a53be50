"""A user's prices, read from YAML.

Leaves the file's shape and its judging to muster.model.prices.
"""

from pathlib import Path

import yaml

from muster.live.errors import PreviewError
from muster.live.sanitize import sanitize_line
from muster.model.prices import BUILT_IN, PriceTable, read


class PriceError(PreviewError):
    """A file that is no table of prices: every mistake in it."""


def load_prices(path: Path | None) -> PriceTable:
    """The user's prices before ours; ours alone without a file."""
    if path is None:
        return BUILT_IN
    try:
        found = read(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise PriceError(f"{path}: cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise PriceError(f"{path}: is not YAML. Fix: write `prices:` with a list below it.") from None
    if isinstance(found, PriceTable):
        return found.before(BUILT_IN)
    raise PriceError(sanitize_line(f"{path}: {' '.join(str(each) for each in found)}", longest=2000))
