"""One adoption: the stack file, and everything that is to be known before the first `pulumi up`, as text and
as JSON.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

from muster.adopt.cluster import Finding, Findings, LiveCluster, title
from muster.adopt.compare import LABELS, Fate, FieldChange, ObjectChange, compare_objects
from muster.adopt.kai import to_values
from muster.adopt.kueue import QueueTree, to_kueue
from muster.adopt.manifest_objects import ManifestObjects
from muster.adopt.nodes import to_pools
from muster.config.document import parse_text
from muster.config.stack import examine
from muster.errors import MusterError
from muster.live.fields import texts
from muster.live.snapshot.kueue import read_tree
from muster.model.kueue.tree import Node, to_tree
from muster.model.programs import PLACEMENTS, Program
from muster.model.quantities import many
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.preemption import PreemptionChange, preemption_changes, rules_of
from muster.preview.compare.quota import QuotaChange, quota_changes
from muster.printable import sanitize_line
from muster.render.manifest import MANAGED_BY_LABEL

# The values of the stack file, from everything that was read.

# The programs that the cluster has: its scheduler stays as it is, KubeRay stays if it is there.
# What an existing program has to be is judged by components/existing_programs.py, as in `pulumi up`.

_EFFECT: Final = "`pulumi up` refuses until then; nothing is written before"


def to_programs(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    """`muster:kuberay`, where the cluster has it."""
    if not live.is_whole:
        effect = (
            "the first `pulumi up` installs KubeRay in ray-system and refuses a second one: if the cluster "
            "has KubeRay, write `muster:kuberay: {install: false}`"
        )
        findings.reworded("Programs", "", "of the cluster are not looked for in files.", effect)
        return {}
    # Files are read without Pulumi, which the base install lacks.
    from muster.components.existing_programs import IncompatibleProgramError, refuse

    kuberay = bool(live.programs.get(Program.KUBERAY))
    for program, installs in ((live.scheduler.program, False), (Program.KUBERAY, not kuberay)):
        try:
            refuse(program, live.programs.get(program, ()), installs=installs)
        except IncompatibleProgramError as error:
            findings.lost(PLACEMENTS[program].title, "Deployment", str(error), _EFFECT)
    if not kuberay:
        reason = "the cluster has no KubeRay, which every stack of Muster's needs."
        findings.reworded("KubeRay", "Deployment", reason, "the first `pulumi up` installs it in ray-system")
    return {"kuberay": {"install": False}} if kuberay else {}


_QUEUES: Final = {
    Scheduler.KUEUE: ("Cohort", "ClusterQueue", "LocalQueue"),
    Scheduler.KAI: ("Queue",),
}


@dataclass(frozen=True, slots=True)
class StackFile:
    """`values`: the keys under `config:`. `tree`: how Kueue's queues are named, None for a stack with KAI.
    `findings`: what it lacks.
    """

    values: dict[str, Any]
    tree: QueueTree | None
    findings: tuple[Finding, ...]

    @property
    def has_pools(self) -> bool:
        return bool(self.values["muster:pools"])


def to_stack_file(live: LiveCluster, cluster: dict[str, str], *, unfit: str = "") -> StackFile:
    """`cluster`: how the stack reaches the cluster. `unfit`: why the nodes of a cluster with KAI cannot be
    pools, "" where they are. MusterError where a stack of Muster's made the queues.
    """
    findings = Findings()
    _refuse_ours(live, findings)
    programs = to_programs(live, findings)
    tree, own = _VALUES[live.scheduler](live, findings, unfit)
    priorities, departments = own.pop("priorities"), own.pop("departments")
    values = {
        "cluster": {"provider": "existing", **cluster},
        **own,
        **programs,
        "gangAdmission": "off",
        "tenancy": {"mode": "off", "namespaces": "existing"},
        "priorities": priorities,
        "departments": departments,
    }
    return StackFile(
        {f"muster:{key}": value for key, value in values.items() if value or key == "pools"},
        tree,
        tuple(findings.found),
    )


def _of_kueue(live: LiveCluster, findings: Findings, _: str) -> tuple[QueueTree | None, dict[str, Any]]:
    return to_kueue(live, to_pools(live, findings), findings)


def _of_kai(live: LiveCluster, findings: Findings, unfit: str) -> tuple[QueueTree | None, dict[str, Any]]:
    values = to_values(live, findings, with_pools=not unfit)
    if unfit:
        effect = "no pools: the report of a change shows no quotas"
        findings.reworded("Nodes", "", f"cannot be pools of this stack: {unfit}", effect)
    return None, values


_VALUES: Final = {Scheduler.KUEUE: _of_kueue, Scheduler.KAI: _of_kai}


def _refuse_ours(live: LiveCluster, findings: Findings) -> None:
    """Some queues are Muster's where a first `pulumi up` stopped at a conflict."""
    if not (live.of("ClusterQueue") or live.kai("Queue")):
        where = "the cluster has" if live.is_whole else "the files have"
        raise MusterError(
            f"{where} objects of Kueue and no ClusterQueue, so there is nothing to take over.",
            fix="write a stack with `muster new`.",
        )
    scheduler = live.scheduler
    queues = [each for kind in _QUEUES[scheduler] for each in live.of(kind, scheduler)]
    ours = [each for each in queues if texts(each, "metadata", "labels").get(MANAGED_BY_LABEL) == "muster"]
    if ours and len(ours) == len(queues):
        raise MusterError(
            f"{title(ours[0])} is a Muster stack's already, and so are all others: a second stack would "
            "fight over them.",
            fix="use the stack that made them; `muster snapshot` records what runs.",
        )
    for each in ours:
        reason = "is a Muster stack's already."
        effect = "use this file with that stack alone: a second one would fight over the object"
        findings.reworded(title(each), "", reason, effect)


# The stack file as text, with a comment above each key.

_HEAD: Final = """\
# Written by `muster adopt`: the queues of this cluster as they are. Every object keeps its name and meaning,
# and the first `pulumi up` takes it over in place. How to go on: the page
# "Take over a cluster that runs Kueue or KAI already" of the documentation.
"""
_COMMENTS_OF_KUEUE: Final = {
    "muster:cluster": "The cluster as your kubeconfig names it.",
    "muster:pools": "Flavors whose nodes are all alike, with the nodes as they were counted.",
    "muster:kueue": "The Kueue of this cluster stays as it is. Flavors and checks are exactly the cluster's.",
    "muster:kuberay": "The KubeRay of this cluster stays as it is.",
    "muster:gangAdmission": "Gang admission is not switched on: `off` keeps the checks that are there.",
    "muster:tenancy": "Namespaces are left alone: no policy, quota, network rule or account is added.",
    "muster:priorities": "The WorkloadPriorityClasses.",
    "muster:departments": "Cohorts are departments, ClusterQueues are teams, with exactly their groups.",
}
_COMMENTS_OF_KAI: Final = {
    **_COMMENTS_OF_KUEUE,
    "muster:pools": "Nodes that are all alike, as they were counted.",
    "muster:scheduler": "KAI places the work of this cluster.",
    "muster:kai": "The KAI of this cluster stays as it is. Shard and topologies are exactly the cluster's.",
    "muster:gangAdmission": "Gang admission is not switched on: KAI places gangs as before.",
    "muster:priorities": "KAI's own PriorityClasses.",
    "muster:departments": "Queues with others below them are departments, the rest are teams, with exactly "
    "their figures.",
}
_COMMENTS: Final = {Scheduler.KUEUE: _COMMENTS_OF_KUEUE, Scheduler.KAI: _COMMENTS_OF_KAI}
_WITHOUT_POOLS: Final = {
    Scheduler.KUEUE: "No flavor selects nodes that are all alike, so the report of a change shows no quotas.",
    Scheduler.KAI: "No pools, so the report of a change shows no quotas.",
}
_WIDTH: Final = 110


def format_stack_file(file: StackFile) -> str:
    """YAML that says what `file` has, in its order."""
    parts = [_HEAD, "config:\n"]
    scheduler = Scheduler(file.values.get("muster:scheduler", Scheduler.KUEUE))
    comments, without = _COMMENTS[scheduler], _WITHOUT_POOLS[scheduler]
    for key, value in file.values.items():
        comment = comments[key] if value or key != "muster:pools" else without
        parts += [f"  # {comment}\n", _indented(_dumped({key: value}))]
    return "".join(parts)


def _dumped(value: dict[str, Any]) -> str:
    is_scalar = not any(isinstance(each, dict | list) for each in value.values())
    style = False if is_scalar else None
    return yaml.dump(value, Dumper=_Dumper, default_flow_style=style, sort_keys=False, width=_WIDTH)


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


class _Dumper(yaml.SafeDumper):
    """No anchors: two equal lists are two lists to the people who edit them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


# PyYAML reads and writes YAML 1.1, in which these are text; a reader of YAML 1.2 takes them for numbers.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"),
    list("-+.0123456789"),
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"0o[0-7]+\Z"), ["0"])


# What adoption changes for anyone, by the comparison that the report of every change uses.
# The tree before is read from the cluster's own objects, the tree after from what the stack renders. Quotas
# are compared in flavors that have a pool, preemption everywhere.


@dataclass(frozen=True, slots=True)
class Effects:
    """`queues` and `pools`: how many were compared."""

    quotas: tuple[QuotaChange, ...]
    preemption: tuple[PreemptionChange, ...]
    queues: int
    pools: int

    @property
    def is_empty(self) -> bool:
        return not (self.quotas or self.preemption)


def effects_of(stack: Stack, live: LiveCluster, names: QueueTree) -> Effects:
    """The differences between the cluster as it is and the stack."""
    after = to_tree(stack)
    there = read_tree((*live.of("Cohort"), *live.of("ClusterQueue")), stack.pools)
    found = {
        (names.teams if node.is_team else names.cohorts)[node.object_name]: node
        for node in there.nodes.values()
    }
    before = replace(
        after, nodes={name: _as_found(node, found.get(name, node)) for name, node in after.nodes.items()}
    )
    preemption, _ = preemption_changes(rules_of(stack, before), rules_of(stack, after))
    queues = sum(1 for _ in after.teams())
    return Effects(quota_changes(before, after), preemption, queues, len(stack.pools))


def _as_found(node: Node, found: Node) -> Node:
    """The node of the stack with the figures that the cluster has."""
    return replace(node, groups=found.groups, within=found.within, reclaim=found.reclaim)


_SOURCE: Final = "Pulumi.adopted.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """`text`: the stack file. `mistakes`: what `muster validate` would refuse in it; then nothing is
    compared.
    """

    text: str
    findings: tuple[Finding, ...]
    mistakes: tuple[str, ...]
    objects: tuple[ObjectChange, ...]
    effects: Effects | None

    @property
    def is_exact(self) -> bool:
        """Whether the stack means what the cluster has, and nothing of it is missing."""
        return not (
            self.mistakes
            or any(each.matters for each in self.findings)
            or any(each.fate is Fate.DIFFERENT for each in self.objects)
            or not (self.effects is None or self.effects.is_empty)
        )


def adopt(live: LiveCluster, cluster: dict[str, str]) -> Adoption:
    """The text is read back as `muster validate` does, and what it renders is compared with the cluster.

    A cluster with KAI has pools only where its Queues fit them: Queues of KAI have one figure for all GPUs.
    """
    file = to_stack_file(live, cluster)
    written, stack, mistakes = _examined(file)
    if mistakes and file.tree is None and file.has_pools:
        without = to_stack_file(live, cluster, unfit=mistakes[0])
        second = _examined(without)
        if not second[2]:
            file, (written, stack, mistakes) = without, second
    if stack is None or mistakes:
        return Adoption(text=written, findings=file.findings, mistakes=mistakes, objects=(), effects=None)
    return Adoption(
        text=written,
        findings=file.findings,
        mistakes=(),
        objects=compare_objects(stack, live),
        effects=None if file.tree is None else effects_of(stack, live, file.tree),
    )


def adopt_files(read: ManifestObjects, cluster: dict[str, str]) -> Adoption:
    """The same of objects in files, which may have fields that no API server keeps. MusterError where a
    LocalQueue has no namespace.
    """
    for each in read.live.of("LocalQueue"):
        if not each["metadata"].get("namespace"):
            raise MusterError(
                f"{title(each)} has no metadata.namespace, which is the team's in a stack.",
                fix="write it into the file: Argo CD and `kubectl apply --namespace` add it outside.",
            )
    found = adopt(read.live, cluster)
    dropped = []
    for place, field in read.dropped.items():
        name, _, path = place.partition(": ")
        reason = "is no field of the API, and the API server drops it."
        effect = f"left out; {field.fix.removesuffix('.')}"
        dropped.append(Finding(object=name, field=path, reason=reason, effect=effect))
    return replace(found, findings=(*dropped, *found.findings))


def _examined(file: StackFile) -> tuple[str, Stack | None, tuple[str, ...]]:
    """The text, the stack that it is, and the mistakes in it."""
    written = format_stack_file(file)
    stack, found = examine(parse_text(written, source=_SOURCE))
    return written, stack, tuple(str(each) for each in found if each.level == "error")


_LONGEST: Final = 2000


def to_json(adoption: Adoption, *, file: str) -> dict[str, Any]:
    """`file`: where the stack file was written, "" for nowhere."""
    return {
        "isExact": adoption.is_exact,
        "file": file,
        "stack": adoption.text,
        "mistakes": list(adoption.mistakes),
        "notExpressed": [
            {
                "object": each.object,
                "field": each.field,
                "reason": each.reason,
                "effect": each.effect,
                "matters": each.matters,
            }
            for each in adoption.findings
        ],
        "effects": None
        if adoption.effects is None
        else {
            "queues": adoption.effects.queues,
            "pools": adoption.effects.pools,
            "quotas": [{"queue": each.name, "pool": each.pool.name} for each in adoption.effects.quotas],
            "preemption": [
                {"preemptors": list(each.preemptors), "victims": list(each.victims)}
                for each in adoption.effects.preemption
            ],
        },
        "objects": [
            {
                "object": each.object,
                "fate": each.fate.value,
                "fields": [
                    {"path": field.path, "live": field.live, "written": field.written}
                    for field in each.fields
                ],
            }
            for each in adoption.objects
        ],
    }


def format_report(adoption: Adoption) -> str:
    """What changes, what is not in the stack, and what is said in other words; each with its object."""
    return "".join(f"{_sanitized(line)}\n" for line in _lines(adoption))


def _sanitized(line: str) -> str:
    """Names and values of the cluster are anyone's text."""
    plain = line.lstrip(" ")
    return line[: len(line) - len(plain)] + sanitize_line(plain, longest=_LONGEST)


def _lines(adoption: Adoption) -> Iterator[str]:
    yield from _summary(adoption)
    for mistake in adoption.mistakes:
        yield f"  not a valid stack: {mistake}"
    yield from _objects("Different in the stack", adoption.objects, Fate.DIFFERENT)
    yield from _findings("Not expressed", [each for each in adoption.findings if each.matters])
    yield from _findings("Expressed in other words", [each for each in adoption.findings if not each.matters])
    yield from _objects("Created", adoption.objects, Fate.CREATED)
    yield from _objects("Left alone", adoption.objects, Fate.KEPT)


def _summary(adoption: Adoption) -> Iterator[str]:
    fates = Counter(each.fate for each in adoption.objects)
    if adoption.is_exact:
        yield f"Nothing changes for anyone: {_taken_over(fates)}."
        yield from _effects(adoption)
        return
    if adoption.mistakes:
        yield "The stack file has mistakes; correct it before `pulumi up`:"
        return
    yield (
        f"{_taken_over(fates)}, and {many(fates[Fate.DIFFERENT], 'differs', 'differ')}; "
        "not everything is in the stack file:"
    )
    yield from _effects(adoption)


def _taken_over(fates: Counter[Fate]) -> str:
    return many(fates[Fate.UNCHANGED], "object is taken over as it is", "objects are taken over as they are")


def _effects(adoption: Adoption) -> Iterator[str]:
    found = adoption.effects
    if found is None:
        return
    compared = many(found.queues, "queue")
    if found.pools:
        compared += f" in {many(found.pools, 'pool')}"
    if found.is_empty:
        yield f"Quotas, borrowing and preemption of {compared}: no difference."
    for quota in found.quotas:
        yield f"  {quota.name}: another quota or limit in pool {quota.pool.name}"
    for right in found.preemption:
        yield f"  {', '.join(right.preemptors)}: other rights to preempt {', '.join(right.victims)}"


def _findings(heading: str, found: list[Finding]) -> Iterator[str]:
    if not found:
        return
    yield ""
    yield f"{heading}:"
    for each in found:
        where = f"{each.object}: {each.field}" if each.field else each.object
        yield f"  {where}: {each.reason} Effect: {each.effect}."


def _objects(heading: str, objects: tuple[ObjectChange, ...], fate: Fate) -> Iterator[str]:
    found = [each for each in objects if each.fate is fate]
    if not found:
        return
    yield ""
    yield f"{heading}:"
    for each in found:
        yield f"  {each.object}"
        for field in each.fields:
            yield f"    {_field(each, field)}"


def _field(change: ObjectChange, field: FieldChange) -> str:
    written = "not in the stack; it stays" if field.written is None else json.dumps(field.written)
    line = f"{field.path}: {json.dumps(field.live)} -> {written}"
    if not field.path.startswith(LABELS):
        return line
    kind, _, name = change.object.partition(" ")
    namespace, _, own = name.rpartition("/")
    label = field.path.removeprefix(LABELS)
    scope = f" -n {namespace}" if namespace else ""
    return (
        f"{line}. `pulumi up` writes nothing of this object while another client holds the label. Fix: take "
        f"the object out of that client's hands, then `kubectl label {kind.lower()} {own}{scope} {label}-`"
    )
