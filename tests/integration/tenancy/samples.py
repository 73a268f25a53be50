"""The sample manifests that the projects around a queue publish, and the verdict recorded for each.

The samples are not part of this repository. Some are in Go modules of their projects, which the build
downloads, the others are read where `shared/data/samples` beside the checkout has a folder of them.
samples.yaml has the verdicts.

    python -m tests.integration.tenancy.samples   records the verdicts anew
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from muster.check.admission import FIGURES, Admission, Answer
from muster.check.policies import Level
from muster.config import load
from muster.model.ray import Ray
from muster.model.stack import Scheduler, Stack
from muster.model.work import SERVED, Work
from muster.model.work import WORK as KINDS
from muster.paths import stack_file
from tests.kai.definitions import data
from tests.unit.model.go_modules import module_cache

Json = dict[str, Any]
# `local` and `prod`: the verdict there. `write`: what is refused or warned of, with what to write. `fits`:
# whether it is admitted on `local` with its figures too.
Entry = dict[str, Any]

_MODULES: Final = {
    "kuberay": "github.com/ray-project/kuberay/ray-operator@v1.6.2/config/samples",
    "lws": "sigs.k8s.io/lws@v0.9.0/docs/examples",
    "pytorchjob": "github.com/kubeflow/training-operator@v1.9.3/examples/pytorch",
    "mpijob": "github.com/kubeflow/mpi-operator@v0.8.2/examples",
    "trainer": "github.com/kubeflow/trainer/v2@v2.3.0/examples",
}
_SHARED: Final = ("kueue", "kai", "jobset", "google", "aws")
RECORD: Final = Path(__file__).with_name("samples.yaml")
PAGE: Final = Path(__file__).parents[3] / "docs" / "samples.md"
_PUBLISHERS: Final = {
    "kuberay": "KubeRay 1.6.2, `ray-operator/config/samples`",
    "kueue": "Kueue, `site/static/examples` of commit ff69552",
    "kai": "KAI, `docs` of commit d5bc503",
    "lws": "LeaderWorkerSet 0.9.0, `docs/examples`",
    "jobset": "JobSet, `site/static/examples` of commit 08dfbdf",
    "pytorchjob": "Kubeflow's training operator 1.9.3, `examples/pytorch`",
    "mpijob": "Kubeflow's MPI operator 0.8.2, `examples`",
    "trainer": "Kubeflow's Trainer 2.3.0, `examples`",
    "google": "Google, work with GPUs or TPUs in `ai-ml` of kubernetes-engine-samples, commit 2b50365",
    "aws": "AWS, work with GPUs in awsome-distributed-training, commit 7217859",
}
_HEAD: Final = """\
# Published samples: what happens, and what to write

<!-- Written by `python -m tests.integration.tenancy.samples` from what `muster check` finds. -->

What admission answers to sample manifests of the projects around a queue, of Google and of AWS in the
namespace of a team, whose queue is named on the command line. With Kueue the stack serves every kind of
`muster:work`:

<!-- not run: it needs a cluster -->
```sh
kubectl label --local --overwrite -f FILE kueue.x-k8s.io/queue-name=default -o json \\
  | kubectl -n TEAM create -f -
```

(`-o yaml` prints several objects without a line between them. A namespace that the file names is removed.)
Admission
[fills in](submission.md#what-is-filled-in) what has one answer. A sample is below each change that it needs
where `muster:ray: {auth: required}`, the default. With `preferred` an older release of Ray is a warning.
Whether a sample fits pools and quota is left out; `muster check` compares them.
"""
_NOTHING: Final = "Write nothing"
# What differs between samples with the same advice.
_DIFFERENCES: Final = (
    (r"^Write in spec[^:]*: ", "Write in the Ray cluster: "),
    (r"image: rayproject/[^ ]+:(\S+) \(or newer\) in its containers", r"an image of Ray \1 or newer"),
    (r"^\S+ is '(?:\$|PLACEHOLDER)[^']*', and", "A variable that was not filled in"),
    (r"^\w+ \S+ selects nodes by [^;]*, which", "It selects nodes by labels which"),
    (r"^image (?:\S+|<[^>]*>) is no reference to an image", "An image is no reference"),
    (r"^(serviceAccountName|claimName) \S+, which", r"A \1 which"),
    (r"\b(?:In )?spec\.[\w.\[\]]*(?:template|headService|serveService)\b", "the object"),
)
_RUN: Final = """\
## Run on the local cluster

`MUSTER_SAMPLES=1 python -m pytest tests/e2e/test_samples.py` creates each sample for which stack `local` has
room, as a member of team-a and with the label alone. The local cluster has no registry, so the images are its
own: Ray 2.54.1, a program that waits in place of Fluent Bit, and a Python with a shell in place of agnhost.

{result}
"""
# After a run: the date, and which of them reached it.
_RESULT: Final = (
    "On 2026-11-23, on 2 cores, all that were listed then did: each RayCluster was ready, "
    "`sample-scalable-job` ran, and Ray\n"
    "took the job of `ray-job.modin`. What becomes of that one without the internet is not judged."
)
TEAM: Final = "team-a"
_HEADER: Final = """\
# What admission answers to each published sample with a queue of team-a in its labels: on stack `local`,
# where Ray's token and release are preferred, and where they are required, as in production. Written by
# python -m tests.integration.tenancy.samples
"""
# Of what a team submits. Other kinds are the platform's: queues, volumes, gateways, policies.
WORK: Final = tuple(each.kind for each in KINDS)


@dataclass(frozen=True, slots=True)
class Sample:
    """One object of a published file. `publisher` is a key of `_PUBLISHERS`."""

    publisher: str
    file: str
    body: Json

    @property
    def name(self) -> str:
        metadata = self.body.get("metadata") or {}
        named = metadata.get("name") or f"{metadata.get('generateName', '')}*"
        return f"{self.file}: {self.body['kind']} {named}"


def folders() -> dict[str, Path]:
    """Where the samples of each publisher are; without those that are absent."""
    shared = data("samples")
    found = {name: module_cache() / module for name, module in _MODULES.items()}
    if shared is not None:
        found |= {name: shared / name for name in _SHARED}
    return {name: folder for name, folder in found.items() if folder.is_dir()}


@cache
def samples(publisher: str) -> tuple[Sample, ...]:
    folder = folders().get(publisher)
    if folder is None:
        return ()
    return tuple(
        Sample(publisher, file.relative_to(folder).as_posix(), body)
        for file in sorted(folder.rglob("*.yaml"))
        for body in _objects(file)
    )


def _objects(file: Path) -> Iterator[Json]:
    """Its objects; none where it is no manifest, such as the values of a chart."""
    for body in yaml.safe_load_all(file.read_text(encoding="utf-8")):
        if isinstance(body, dict) and body.get("kind") and body.get("apiVersion"):
            body["metadata"] = body.get("metadata") or {}
            body["metadata"].pop("namespace", None)
            yield body


@cache
def recorded() -> dict[str, dict[str, Entry]]:
    """Publisher -> sample -> what is recorded of it."""
    found: dict[str, dict[str, Entry]] = yaml.safe_load(RECORD.read_text(encoding="utf-8"))
    return found


@cache
def admission(publisher: str, *, required: bool) -> Admission:
    """Stack `local` for the publisher's scheduler, with Ray's authentication preferred as it is there, or
    required as in production.
    """
    stack: Stack = replace(load(stack_file("local", start=RECORD.parent)), work=tuple(Work))
    if publisher == "kai":
        stack = replace(stack, scheduler=Scheduler.KAI, work=SERVED)
    return Admission(replace(stack, ray=Ray()) if required else stack, TEAM)


def in_queue(sample: Sample, admission: Admission) -> Json:
    """The sample with the one label that a user adds on the command line: a queue of the team. Samples name
    queues of their own.
    """
    key = "kai.scheduler/queue" if admission.tree.kai else "kueue.x-k8s.io/queue-name"
    metadata = {**sample.body["metadata"], "labels": {**(sample.body["metadata"].get("labels") or {})}}
    body = {**sample.body, "metadata": metadata}
    if sample.body["kind"] in WORK and sample.body["kind"] != "CronJob":
        if admission.tree.kai:
            metadata["labels"].pop(key, None)
        else:
            metadata["labels"][key] = admission.space.queues[0].name
    return body


def verdict(answer: Answer) -> str:
    """What the rules answer, figures apart, which are a matter of the pools: `filled in, warned by
    muster-ray-advice`.
    """
    findings = [each for each in answer.findings if each.by != FIGURES]
    found = ["filled in"] if answer.filled else []
    for level in Level:
        by = dict.fromkeys(each.by for each in findings if each.level is level)
        found += [f"{level} by {', '.join(by)}"] if by else []
    return ", ".join(found) or "allowed"


def advice(answer: Answer) -> list[str]:
    """What to write in place of what is refused or warned of."""
    findings = [each for each in answer.findings if each.by != FIGURES]
    # A refusal of Ray's release has its reasons first, the same for every sample.
    return [
        each.message[each.message.find("Write in ") :] if "Write in " in each.message else each.message
        for each in findings
    ]


def record(publisher: str) -> dict[str, Entry]:
    """Sample -> its verdict on `local` and on `prod`, and what to write for it."""
    found: dict[str, Entry] = {}
    for sample in samples(publisher):
        answers = {}
        for stack, required in (("local", False), ("prod", True)):
            at = admission(publisher, required=required)
            answers[stack] = at.review(in_queue(sample, at))
        entry: Entry = {stack: verdict(answer) for stack, answer in answers.items()}
        if sample.body["kind"] in WORK:
            entry |= {"write": lines} if (lines := advice(answers["prod"])) else {}
            entry["fits"] = answers["local"].is_admitted
        found[sample.name] = entry
    return found


def page() -> str:
    """docs/samples.md: samples with the same answer share a row."""
    parts = [_HEAD]
    for publisher, entries in recorded().items():
        samples: dict[str, list[str]] = {}
        for name, entry in entries.items():
            if (title := _title(name)) is None:
                continue
            for line in entry.get("write") or (_NOTHING,):
                samples.setdefault(_general(str(line)), []).append(title)
        parts.append(f"## {_PUBLISHERS[publisher]}\n")
        parts += [f"- **{line}**: {', '.join(dict.fromkeys(titles))}" for line, titles in samples.items()]
        parts.append("")
        fitting = [name for name, entry in entries.items() if entry.get("fits")]
        if fitting:
            files = ", ".join(f"`{name.partition(': ')[0]}`" for name in fitting)
            parts.append(f"Of these the small pools of stack `local` have room for: {files}.\n")
    parts.append(_RUN.format(result=_RESULT))
    return "\n".join(parts)


def _title(name: str) -> str | None:
    """`file`, for what teams submit."""
    file, _, rest = name.partition(": ")
    return f"`{file}`" if rest.split(" ")[0] in WORK else None


def _general(line: str) -> str:
    """Advice without what differs between samples: the path of the Ray cluster, its image, its name."""
    for pattern, text in _DIFFERENCES:
        line = re.sub(pattern, text, line)
    return line.replace("**", "")


if __name__ == "__main__":
    whole = recorded() | {publisher: record(publisher) for publisher in folders()}
    RECORD.write_text(_HEADER + yaml.safe_dump(whole, sort_keys=False, width=200), encoding="utf-8")
    recorded.cache_clear()
    PAGE.write_text(page(), encoding="utf-8")
