"""Reads and writes the user's prices, as YAML."""

from pathlib import Path

import yaml

from muster.errors import MusterError
from muster.model.prices import BUILT_IN, PriceTable, document, read
from muster.printable import sanitize_line
from muster.whole_file import write_whole


class PriceError(MusterError):
    """A price file with mistakes; the message lists all of them."""


def load_prices(path: Path | None) -> PriceTable:
    """The user's prices, with Muster's own as a fallback. Without a file, Muster's own."""
    return BUILT_IN if path is None else read_price_file(path).before(BUILT_IN)


def read_price_file(path: Path) -> PriceTable:
    """The prices of one file."""
    try:
        found = read(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise PriceError(
            f"{path}: cannot be read: {error.strerror}.", fix="name a price file that exists."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise PriceError(f"{path}: not YAML.", fix="write `prices:` with a list below it.") from None
    if isinstance(found, PriceTable):
        return found
    raise PriceError(sanitize_line(f"{path}: {' '.join(str(each) for each in found)}", longest=2000))


def write_price_file(path: Path, table: PriceTable) -> None:
    """An interrupted run leaves the old file."""
    try:
        write_whole(path, yaml.safe_dump(document(table), sort_keys=False).encode())
    except OSError as error:
        raise PriceError(f"{path}: cannot be written: {error.strerror}.") from None
