"""Work that others published, and what is right about it.

`public` has reduced forms of manifests of repositories, bug reports and guides, which kept what they show and
lost the rest. Each has its source and what was decided by hand before `muster check` saw it:

    # stack: one of `_STACKS`
    # want: NAME; admitted, warned or refused; words=A|B; pools GROUP=A,B; not=TEXT; asks=GPU; fix=

`words` are in what is refused or warned of, `not` is not, a group fits these pools and no others, the whole
asks for GPUs, and `--fix` makes it pass. bench/results/public-work.md has the rates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from muster.check import manifests
from muster.check.admission import Admission
from muster.check.demands import gang
from muster.check.report import Result, result
from muster.model import names
from muster.model.work import Work
from tests.unit.check.stacks import fitting, refusals, stack_text, warnings
from tests.unit.model.model_stacks import parsed

_FOLDER: Final = Path(__file__).with_name("public")
_TEAM: Final = "vision"
_A100: Final = {"accelerator": "nvidia-tesla-a100", "machine": "a2-highgpu-1g"}
_GKE: Final[dict[str, Any]] = {
    "pools": {
        "a100": {**_A100, "capacity": "queued", "maxNodes": 8},
        "v6e": {
            "accelerator": "tpu-v6e-slice",
            "machine": "ct6e-standard-4t",
            "topology": "4x4",
            "zones": ["us-central1-b"],
            "maxNodes": 4,
        },
        "mig": {**_A100, "sharing": "mig", "migProfile": "1g.5gb", "maxNodes": 4},
    },
    "departments": {
        "research": {
            "teams": {_TEAM: {"quota": {"l4": 16, "a100": 4, "h100": 32, "v6e": 16, "mig": 7, "cpu": 64}}}
        }
    },
}
_ALL: Final = [each.value for each in Work]
_STACKS: Final = {
    "gke": ("gke", "kueue", {**_GKE, "work": _ALL}),
    "gke-default": ("gke", "kueue", _GKE),
    "eks": ("eks", "kueue", {"work": _ALL}),
    "kai": ("gke", "kai", {}),
    "kai-all": ("gke", "kai", {"work": _ALL}),
    "kai-sharing": ("gke", "kai", {"work": _ALL, "kai": {"gpuSharing": True}}),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One published object, the stack that it is sent to, and what is wanted of the answer."""

    name: str
    source: str
    stack: str
    want: tuple[str, ...]
    body: dict[str, Any]


@cache
def cases() -> tuple[Case, ...]:
    return tuple(each for file in sorted(_FOLDER.glob("*.yaml")) for each in _read(file))


def _read(file: Path) -> Iterator[Case]:
    for text in file.read_text(encoding="utf-8").split("\n---\n"):
        head = dict(re.findall(r"^# (\w+): (.*)$", text, re.MULTILINE))
        (body,) = manifests.read(text, file.name)
        name, *want = (part.strip() for part in head["want"].split(";"))
        assert name == manifests.title(body), name
        yield Case(f"{file.stem}: {name}", head["source"], head["stack"], tuple(want), body)


@cache
def admission(stack: str, *, team: str = _TEAM) -> Admission:
    """That of the team that is alone in a stack."""
    cloud, scheduler, more = _STACKS[stack]
    return Admission(parsed(stack_text(cloud, scheduler, **more).replace(_TEAM, team)), team)


def differences(case: Case) -> list[str]:
    """What of the answer is not as it should be."""
    found = result(admission(case.stack), case.body)
    verdict, *more = case.want
    answer = "admitted" if found.answer.is_admitted else "refused"
    right = verdict.replace("warned", "admitted")
    listed = [] if answer == right else [f"{answer}, and {right} is right: {_said(found)}"]
    return [*listed, *(text for each in more if (text := _difference(case, found, each)))]


def _difference(case: Case, found: Result, wanted: str) -> str:
    key, _, value = wanted.partition("=")
    if key == "words":
        missing = [word for word in value.split("|") if word not in _said(found)]
        return f"not a word of {missing}: {_said(found)}" if missing else ""
    if key == "not":
        return f"says {value}" if value in _said(found) else ""
    if key.startswith("pools "):
        pools = fitting(found, key.removeprefix("pools "))
        return "" if pools == set(value.split(",")) else f"fits {sorted(pools)}, and {value} is right"
    if key == "asks":
        return "" if gang(found.demands).get(names.GPU_RESOURCE) else "asks for no GPU"
    assert key == "fix", key
    of = admission(case.stack)
    fixed = of.review(of.fixed(case.body))
    return "" if fixed.is_admitted else "what --fix writes is refused"


def _said(found: Result) -> str:
    return f"{refusals(found)} || {warnings(found)}"
