"""Every label and annotation that KAI's programs read is judged: tests/integration/tenancy/kai_keys.yaml.

From the sources of the version that is compiled for these tests. A key that a new version reads fails here.
"""

import re
from collections.abc import Iterator
from typing import Final

from muster.local import kai
from muster.local.builder.cache import Cache
from muster.local.builder.everything import Run
from tests.integration.tenancy.fields import alternatives
from tests.integration.tenancy.judgements import kai_keys

# Its programs, and what several of them share.
_FOLDERS: Final = ("podgrouper", "scheduler", "binder", "podgroupcontroller", "queuecontroller", "common")
_TEXT: Final = re.compile(r'^\s*(?:const\s+)?(\w+)\s*(?:string\s*)?:?=\s*"([^"\n]+)"', re.MULTILINE)
_INDEX: Final = re.compile(r"(?i:labels|annotations)(?:\(\))?\[([^\]\n]+)\]")
_SELECTOR: Final = re.compile(r"(?:MatchingLabels|HasLabels)\{([^}]*)\}")
_OWN: Final = re.compile(r'"((?:kai\.scheduler|run\.ai|runai)[/-][^"\s]*)"')
# What variables hold: the key that a flag names, or one that is put together.
_NAMED: Final = {
    "nodePoolKey": "kai.scheduler/node-pool",
    "nodePoolLabelKey": "kai.scheduler/node-pool",
    "NodePoolLabelKey": "kai.scheduler/node-pool",
    "queueLabelKey": "kai.scheduler/queue",
    "QueueLabelKey": "kai.scheduler/queue",
    "multiGroupKey": "runai-gpu-group",
}
_OF_NODES: Final = ("NodeLabel", "levelLabel", "cpuWorkerLabelKey", "gpuWorkerLabelKey", "migWorkerLabelKey")
# Variables of loops over keys that are read elsewhere.
_LOOPS: Final = ("k", "key", "labelKey")


def _sources() -> Iterator[str]:
    run = Run(Cache(), base=None)
    program = run.versions.programs[kai.SCHEDULER]
    module = run.go.module_directory(program.directory, program.module, program.version)
    for folder in _FOLDERS:
        for path in (module / "pkg" / folder).rglob("*.go"):
            if not path.name.endswith("_test.go") and "test_utils" not in path.parts:
                yield path.read_text()


def _read_by(texts: list[str]) -> Iterator[str]:
    """The keys, and `?name` of a variable that stands for one."""
    values: dict[str, set[str]] = {}
    for name, value in (pair for text in texts for pair in _TEXT.findall(text)):
        values.setdefault(name, set()).add(value)
    for text in texts:
        yield from _OWN.findall(text)
        selected = (part.split(":")[0] for found in _SELECTOR.findall(text) for part in found.split(","))
        for word in (each.strip() for each in (*_INDEX.findall(text), *selected)):
            name = word.rpartition(".")[2]
            if word.startswith('"'):
                yield word.strip('"')
            elif name and name not in (*_OF_NODES, *_LOOPS):
                yield from [_NAMED[name]] if name in _NAMED else values.get(name, {f"?{name}"})


def test_every_key_that_kai_reads_is_judged() -> None:
    keys = set(_read_by(list(_sources())))
    judged = {key for each in kai_keys() for key in alternatives(each.field)}
    assert not keys - judged, f"judge them for new work and for updates, in kai_keys.yaml: {keys - judged}"
    assert not judged - keys, f"KAI reads them no longer: {judged - keys}"
