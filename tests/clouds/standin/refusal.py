"""Why an input is refused."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """`path` is the input as the engine names it; `reason` says what is wrong and who says so."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
