"""Prints events: lines for people, or one JSON object on each line for programs."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import asdict
from typing import Final, TextIO

from muster.local.demo.events import Event, Mood

_COLOURS: Final = {Mood.GOOD: "\033[32m", Mood.BAD: "\033[31m", Mood.PLAIN: ""}
_DIM: Final = "\033[2m"
_OFF: Final = "\033[0m"


class Screen:
    """Prints seconds since the story began, of whom, and what. Several threads speak; after the end none."""

    def __init__(self, *, as_json: bool, out: TextIO = sys.stdout) -> None:
        self._json = as_json
        self._out = out
        self._begun = time.monotonic()
        self._writing = threading.Lock()
        self._is_over = False
        self._colours = not as_json and out.isatty() and not os.environ.get("NO_COLOR")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def show(self, event: Event) -> None:
        if self._json:
            self._write(json.dumps({"seconds": round(self.seconds, 1), **asdict(event)}))
            return
        stamp = f"{self.seconds:6.1f} s"
        self._write(f"{self._dim(stamp)}  {event.who:<9} {self._coloured(event.text, _COLOURS[event.mood])}")

    def say(self, text: str) -> None:
        """A sentence between the lines."""
        if self._json:
            self._write(json.dumps({"seconds": round(self.seconds, 1), "text": text}))
        else:
            self._write(text)

    def end(self, *, reason: str | None) -> None:
        """The last line: that the story ended well, or why not."""
        if self._json:
            result = "failed" if reason else "succeeded"
            line = json.dumps({"result": result, "seconds": round(self.seconds, 1), "reason": reason})
        elif reason:
            line = self._coloured(f"FAILED after {self.seconds:.0f} s: {reason}", _COLOURS[Mood.BAD])
        else:
            line = self._coloured(f"done in {self.seconds:.0f} s", _COLOURS[Mood.GOOD])
        self._write(line, is_last=True)

    def _dim(self, text: str) -> str:
        return self._coloured(text, _DIM)

    def _coloured(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_OFF}" if self._colours and colour else text

    def _write(self, line: str, *, is_last: bool = False) -> None:
        with self._writing:
            if not self._is_over:
                print(line, file=self._out, flush=True)
            self._is_over = self._is_over or is_last
