"""Makes untrusted text fit to print: names, paths, messages.

What remains is one line of bounded length, without terminal escapes, control characters and bidirectional
overrides.
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
    text = printable(" ".join(_ANSI.sub("", text[: longest * 8]).split()))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def sanitize_indented(line: str, *, longest: int) -> str:
    """One line with its indent."""
    words = line.lstrip(" ")
    return " " * (len(line) - len(words)) + sanitize_line(words, longest=longest)


def printable(line: str) -> str:
    """The line without what a terminal would obey. Its spaces stay."""
    return "".join(
        "\ufffd" if unicodedata.category(each) in _INVISIBLE else each
        for each in _ANSI.sub("", line).expandtabs()
    )
