"""Sanitizes untrusted text: names, paths, messages.

What remains is one line of bounded length, without terminal escapes, control characters and bidirectional
overrides. Not responsible for escaping Markdown and HTML (muster/preview/markdown.py, html.py).
"""

import re
import unicodedata
from typing import Final

LONGEST: Final = 300
# Terminal sequences: CSI, OSC up to its end, and the two-character ones.
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Control, format (including bidirectional overrides), surrogates, private use, unassigned.
_INVISIBLE: Final = ("Cc", "Cf", "Cs", "Co", "Cn")


def sanitize_line(text: str, *, longest: int = LONGEST) -> str:
    """The text as one line without invisible characters. Longer text is cut off."""
    text = " ".join(_ANSI.sub("", text[: longest * 8]).split())
    text = "".join("\ufffd" if unicodedata.category(each) in _INVISIBLE else each for each in text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
