"""Text that others wrote: names, paths, messages.

Decides what is left of it before it goes anywhere: one line, no terminal escapes, no control or direction
characters, bounded. Leaves escaping for Markdown and HTML to those who write them.
"""

import re
import unicodedata
from typing import Final

LONGEST: Final = 300
# Terminal sequences: CSI, OSC up to its end, and the two-character ones.
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Control, format (among them those that turn the direction of writing), surrogates, private use, unassigned.
_UNSEEN: Final = ("Cc", "Cf", "Cs", "Co", "Cn")


def sanitize_line(text: str, *, longest: int = LONGEST) -> str:
    """The text as one line that shows all that it holds."""
    text = " ".join(_ANSI.sub("", text[: longest * 8]).split())
    text = "".join("\ufffd" if unicodedata.category(each) in _UNSEEN else each for each in text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
