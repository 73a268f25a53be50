"""The stack file as text, with a comment above each key."""

import re
from typing import Any, Final

import yaml

from muster.adopt.stack_file import StackFile

_HEAD: Final = """\
# Written by `muster adopt`: the queues of this cluster as they are. Every object keeps its name and meaning,
# and the first `pulumi up` takes it over in place. How to go on: docs/adopt.md.
"""
_COMMENTS: Final = {
    "muster:cluster": "The cluster as your kubeconfig names it.",
    "muster:pools": "Flavors whose nodes are all alike, with the nodes as they were counted.",
    "muster:kueue": "The Kueue of this cluster stays as it is. Flavors and checks are exactly the cluster's.",
    "muster:kuberay": "The KubeRay of this cluster stays as it is.",
    "muster:gangAdmission": "Gang admission is not switched on: `off` keeps the checks that are there.",
    "muster:tenancy": "Namespaces are left alone: no policy, quota, network rule or account is added.",
    "muster:priorities": "The WorkloadPriorityClasses.",
    "muster:departments": "Cohorts are departments, ClusterQueues are teams, with exactly their groups.",
}
_KAI_COMMENTS: Final = {
    **_COMMENTS,
    "muster:pools": "Nodes that are all alike, as they were counted.",
    "muster:scheduler": "KAI places the work of this cluster.",
    "muster:kai": "The KAI of this cluster stays as it is. Shard and topologies are exactly the cluster's.",
    "muster:gangAdmission": "Gang admission is not switched on: KAI places gangs as before.",
    "muster:priorities": "KAI's own PriorityClasses.",
    "muster:departments": "Queues with others below them are departments, the rest are teams, with exactly "
    "their figures.",
}
_WITHOUT_KAI_POOLS: Final = "No pools, so the report of a change shows no quotas."
_WITHOUT_POOLS: Final = (
    "No flavor selects nodes that are all alike, so the report of a change shows no quotas."
)
_WIDTH: Final = 110


def format_stack_file(file: StackFile) -> str:
    """YAML that says what `file` has, in its order."""
    parts = [_HEAD, "config:\n"]
    is_kai = "muster:scheduler" in file.values
    comments = _KAI_COMMENTS if is_kai else _COMMENTS
    without = _WITHOUT_KAI_POOLS if is_kai else _WITHOUT_POOLS
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
