"""What the table of kinds of work says in CEL, for placeholders of the policies' files.

Where each kind has its Ray cluster and its pod templates, where it is stopped, and how many pods it has. The
texts have the placeholders `${of}`, an object in its new or old state, and `${when}`, the suffix of the
variables of that state.
"""

from collections.abc import Iterable
from typing import Final

from muster.model.stack import Stack
from muster.model.work import GROUPED, SUSPEND, WORK, Path, WorkKind
from muster.render.tenancy.policies.policy import Kinds, kinds_of

# What makes pods outside of every queue. No member may write it, and the role `edit` may.
_UNQUEUED: Final = ("deployments", "statefulsets", "daemonsets", "replicasets")
_OF: Final = "${of}"


def makers_of_pods(stack: Stack) -> tuple[Kinds, ...]:
    """Work, and what makes pods outside of every queue."""
    work = stack.judged_work
    queued = {each.resource for each in work}
    return (
        *kinds_of(work),
        Kinds(group="apps", resources=tuple(each for each in _UNQUEUED if each not in queued)),
        Kinds(group="", resources=("replicationcontrollers",)),
    )


def optional(of: str, path: str) -> str:
    return of + "".join(f".?{key}" for key in path.split("."))


def values_at(paths: Iterable[Path]) -> str:
    """The values at paths of any kind of work, as a list."""
    listed = list(dict.fromkeys(paths))
    alone = ",\n".join(optional(_OF, path.text) for path in listed if not path.groups)
    grouped = (
        f" +\n{_groups_at(path)}.map(group, {optional('group.of', path.rest)})"
        for path in listed
        if path.groups
    )
    return f"([{alone}]{''.join(grouped)}).filter(each, each.hasValue()).map(each, each.value())"


def is_suspended(of: str) -> str:
    """Whether work is stopped, which each kind says at its own path."""
    chosen = (
        f"request.resource.resource in {[each.resource for each in WORK if each.suspend == path]} ? "
        f"{optional(of, path)} :\n"
        for path in dict.fromkeys(each.suspend for each in WORK)
        if path != SUSPEND
    )
    return f"({''.join(chosen)}{optional(of, SUSPEND)}).orValue(false)"


def too_many(most: int) -> str:
    """Whether work of no Ray cluster has more pods at a time than `most`."""
    found = list[str]()
    for pods in dict.fromkeys(pods for work in WORK for pods in work.pods if pods.factors):
        groups = _groups_at(pods.template) if pods.template.groups else f"[{{'of': {_OF}}}]"
        counts = [f"{optional('group.of', each)}.orValue(1)" for each in pods.factors]
        found.append(f"{groups}.exists(group, {' || '.join(f'{each} > {most}' for each in counts)})")
        if pods.template.groups or len(counts) > 1:
            found.append(f"{groups}.map(group, {' * '.join(counts)}).sum() > {most}")
    return " ||\n".join(found)


def _parts_at(work: Iterable[WorkKind]) -> str:
    """The templates of these kinds with their paths, as a list."""
    paths = dict.fromkeys((pods.template, pods.is_of_runtime) for kind in work for pods in kind.pods)
    return " +\n".join(
        _grouped_parts(path) if path.groups else _part(path.text, "${templateOfRuntime}" if other else "")
        for path, other in paths
    )


def _part(path: str, template: str = "") -> str:
    part = f"[{{'path': dyn('{path}'), 'template': dyn({template or f'{_OF}.{path}'})}}]"
    return f"({optional(_OF, path)}.hasValue() ? {part} : [])"


def _grouped_parts(path: Path) -> str:
    name = f"'{path.groups} of ' + group.name + ': " if path.field else f"'{path.groups}.' + group.name + '."
    return (
        f"{_groups_at(path)}.filter(group, {optional('group.of', path.rest)}.hasValue())\n"
        f"  .map(group, {{'path': dyn({name}{path.rest}'), 'template': dyn(group.of.{path.rest})}})"
    )


def _groups_at(path: Path) -> str:
    """The items of the variable `groups` that are at this path."""
    return f"variables.groups${{when}}.filter(group, group.at == '{path.groups}')"


def _groups() -> str:
    """What has pods in several groups, with the path `at` and the `name` of each; none of any other kind."""
    groups = list[str]()
    for path in dict.fromkeys(pods.template for work in GROUPED for pods in work.pods):
        at = optional(_OF, path.groups)
        if path.field:
            found, name, group = f"{at}.orValue([])", f"each.?{path.field}.orValue('')", "each"
        else:
            values = f"{at}.orValue(dyn({{}}))"
            found, name = f"{list(path.keys)}.filter(each, each in {values})", "each"
            group = f"{values}[each]"
        item = f"{{'at': dyn('{path.groups}'), 'name': dyn({name}), 'of': dyn({group})}}"
        groups.append(f"{found}.map(each, {item})")
    grouped = f"request.resource.resource in {[each.resource for each in GROUPED]}"
    return f"{grouped} ? " + " +\n".join(groups) + " : []"


_CLUSTERS: Final = ", ".join(f"'{each.resource}': '{each.cluster}'" for each in WORK if each.cluster)
MODEL: Final = {
    # Where each of Ray's kinds has its cluster.
    "clusterPaths": f"{{{_CLUSTERS}}}[?request.resource.resource].orValue('')",
    "groups": _groups(),
    "partsOfRay": _parts_at(work for work in WORK if work.is_ray),
    # Deployments and others have theirs where a Job has its own.
    "partsOfOthers": _parts_at(work for work in WORK if not work.is_ray),
}
"""For every file."""
