"""Loads the user's prices from YAML. Not responsible for their validation (muster.model.prices)."""

from pathlib import Path

import yaml

from muster.live.errors import PreviewError
from muster.live.sanitize import sanitize_line
from muster.model.prices import BUILT_IN, PriceTable, read


class PriceError(PreviewError):
    """A price file with mistakes; the message lists all of them."""


def load_prices(path: Path | None) -> PriceTable:
    """The user's prices, with Muster's own as a fallback. Without a file, Muster's own."""
    if path is None:
        return BUILT_IN
    try:
        found = read(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise PriceError(
            f"{path}: cannot be read: {error.strerror}. Fix: name a price file that exists."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise PriceError(f"{path}: not YAML. Fix: write `prices:` with a list below it.") from None
    if isinstance(found, PriceTable):
        return found.before(BUILT_IN)
    raise PriceError(sanitize_line(f"{path}: {' '.join(str(each) for each in found)}", longest=2000))
