"""What a span is to the rest of the runtime, independent of the collector."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from muster.controller.kube.transport import Observer

Facts = Mapping[str, str | int]


class Span(Protocol):
    """Something that is being done."""

    def set_attributes(self, facts: Facts) -> None: ...


class Traces(Observer, Protocol):
    """Where spans go."""

    def span(self, name: str, facts: Facts, *, of: str = "") -> AbstractContextManager[Span]:
        """What happens within is one span. `of`: the uid of the object that it is about."""

    def close(self) -> None:
        """Send what is left; takes seconds at most."""
