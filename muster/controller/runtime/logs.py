"""Structured logs: one JSON object a line on standard error.

A line that cannot be written is dropped and nothing else is affected. The controller binds what a line is
about (controller, key, reconcile id).
"""

import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO, cast

import msgspec
import structlog

LEVELS = ("debug", "info", "warning", "error")


class _Pipe:
    """Standard error, whose failures are ignored: no gang waits because log lines are not read."""

    def write(self, line: bytes) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.buffer.write(line)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.buffer.flush()


def configure(level: str) -> None:
    """Send every log line of the process, also those of libraries, out in one form.

    Ours go past the standard library's logging, which costs more than all else about a line.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.dict_tracebacks,
    ]
    renderer = structlog.processors.JSONRenderer(serializer=encoded)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.BytesLoggerFactory(cast("BinaryIO", _Pipe())),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.DEBUG if level == "debug" else logging.INFO)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


def encoded(line: dict[str, Any], *, default: Callable[[Any], Any]) -> bytes:
    """As JSON, whatever is in it: `default` makes something of what has no form in JSON."""
    try:
        return msgspec.json.encode(line, enc_hook=default)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return json.dumps(line, default=default, skipkeys=True).encode()  # Half a character, say.
