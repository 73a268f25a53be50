"""What each suite came to on each version, as recorded."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).parent / "results.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`failed` has the ids of tests. `day`: when it ran. `note`: what was found out about a failure."""

    suite: str
    kubernetes: str
    kueue: str
    passed: int
    skipped: int
    day: str
    failed: tuple[str, ...] = field(default=())
    note: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.kubernetes, self.kueue, self.suite)


def load() -> list[Result]:
    listed = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else []
    return [Result(**{**each, "failed": tuple(each["failed"])}) for each in listed]


def record(result: Result) -> None:
    """Replaces what was recorded of the same suite on the same versions."""
    kept = {each.key: each for each in load()} | {result.key: result}
    listed = [asdict(kept[key]) for key in sorted(kept)]
    FILE.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
