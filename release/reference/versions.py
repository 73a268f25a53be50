"""The pages of versions, and of what Muster cannot do or does not prevent, from the tables of the model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from muster.artifacts.catalogue import catalogue
from muster.model.known_issues import KNOWN_ISSUES, KnownIssue
from muster.model.transitions import TRANSITIONS, Step, Transition
from muster.model.versions import (
    CALENDAR,
    FIRST_UNKNOWN,
    MINIMUM_VERSIONS,
    READINGS,
    Action,
    Reading,
    Support,
)
from release.reference.markdown import WRITTEN, table

_HEAD: Final = f"""\
# Versions

{WRITTEN}

A stack names versions with `muster:versions`. A version is that of a chart and of its images together, so
neither stays behind. `muster:charts` and `muster:images` are where they come from. What a stack does not
name is as in the column "Muster's own".

```yaml
config:
  muster:versions: {{kuberay: "1.6.2", kueue: "0.19.2"}}
```

`kubernetes` there is the same as `muster:cluster.version`; write one of them. The chart of a version that is
not Muster's own has no digest in Muster: `muster image pin STACK` writes it.

## What can be named
"""
_READ: Final = """\
## Versions that were read and not run

Muster's suites run versions from `From` and before `Before`. The following are newer: their release notes
were read, and each action that the notes require was judged against what a stack can say. `muster validate`
accepts such a version, warns that no suite has run it, and warns of each action that touches the stack, at
the key that it concerns. `muster:versions.require: run` refuses them; that is the default of stacks named
`prod` or `*-prod`. A version that is in neither table is refused.
"""
_STEPS: Final = """\
## Steps from one version to another

`muster diff` prints the verdict on each step between two stack files and calls a stack refused whose step is
refused; `--fail-on refused` makes that its exit code. `muster doctor STACK --context NAME` compares the
stack with the programs that the cluster runs, and `pulumi up` refuses a refused step of those and warns of
one that needs an order. The cloud itself answers a step of `kubernetes`. The policy pack sees what is
registered and not what was there before: it refuses versions older than the table's `From`. The first line
that applies counts.
"""
_CALENDAR: Final = """\
## How long clouds support a Kubernetes version

Muster's EKS clusters are not enrolled in extended support: when standard support of their version ends, AWS
upgrades the control plane at a time of its choice (`upgradePolicy: STANDARD`). GKE does the same; its dates
are estimates of its own.

- `muster validate` warns from 60 days before the end. It never refuses: it does not know whether the cluster
  exists, and an existing one has to stay deployable.
- `muster doctor` and the policy pack also refuse a new cluster of a version whose support has ended, unless
  the date is an estimate. `MUSTER_TODAY=2026-11-23` sets the day for `validate` and `doctor`, the pack's
  setting `today` for the pack.
- A version without a line is not judged: no source of its dates was read.
"""


def page() -> str:
    """The whole page."""
    parts = (
        _HEAD,
        _versions(),
        _READ,
        *map(_reading, READINGS),
        _STEPS,
        table(_TRANSITION_HEAD, _transitions()),
        _CALENDAR,
        table(_SUPPORT_HEAD, map(_support, CALENDAR)),
    )
    return "\n".join(parts)


_ACTION_HEAD: Final = ("What the notes require", "Which stacks it touches", "Fix")
_TRANSITION_HEAD: Final = ("Component", "Step", "Verdict", "Why, and in which order", "Source")


def _versions() -> str:
    charts = catalogue().charts
    rows = []
    for name, minimum in MINIMUM_VERSIONS.items():
        own = charts[name].version.removeprefix("v") if name in charts else ""
        below = FIRST_UNKNOWN.get(name)
        rows.append(
            (name, own, str(minimum.version), str(below or ""), minimum.reason, f"<{minimum.source}>")
        )
    return table(("Component", "Muster's own", "From", "Before", "Why not older", "Source"), rows)


def _reading(reading: Reading) -> str:
    source = " and ".join(f"<{place}>" for place in reading.source.split(", "))
    head = f"{reading.component} {', '.join(reading.versions)}, by {source}, read on {reading.read}:"
    return f"{head}\n\n{table(_ACTION_HEAD, map(_action, reading.actions))}"


def _action(action: Action) -> tuple[str, ...]:
    span = (f"from {action.first}" if action.first else "", f"before {action.until}" if action.until else "")
    when = f" ({' and '.join(filter(None, span))})" if any(span) else ""
    return f"{action.summary}{when}", action.concerns, action.fix


def _transitions() -> Iterator[tuple[str, ...]]:
    """Components with the same answer to the same step share a row."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in TRANSITIONS:
        component, *rest = _transition(row)
        alike.setdefault(tuple(rest), []).append(component)
    return ((", ".join(components), *rest) for rest, components in alike.items())


def _transition(row: Transition) -> tuple[str, ...]:
    steps = ", ".join(step.value for step in Step if step in row.steps)
    below = f", from below {row.below}" if row.below else ""
    source = f"tested: `{row.source}`" if row.is_tested else f"read: <{row.source}>"
    return (row.component, f"{steps}{below}", row.verdict.value, row.reason, source)


_SUPPORT_HEAD: Final = ("Cloud", "Kubernetes", "Released", "Standard support ends", "Extended ends", "Source")


def _support(row: Support) -> tuple[str, ...]:
    days = [str(day or "not read") for day in (row.released, row.standard, row.extended)]
    source = f"<{row.source}>, read on {row.read} {row.note}".rstrip()
    return (row.provider.value.upper(), row.minor, *days, source)


_KNOWN_ISSUES: Final = f"""\
# Known issues

{WRITTEN}

What Muster cannot do or does not prevent, and the way round. `muster doctor STACK` names those that a setting
of your stack brings, by their id. *Untested* means read, not run; [what was tested](reference/evidence.md)
has the rest.
"""


def known_issues_page() -> str:
    """The whole page."""
    parts = [_KNOWN_ISSUES]
    for section, issues in groupby(KNOWN_ISSUES.values(), lambda each: each.section):
        parts += [f"## {section}\n", *map(_line, issues), ""]
    return "\n".join(parts)


def _line(issue: KnownIssue) -> str:
    return f'- <a id="{issue.name}"></a>**`{issue.name}`** {" ".join(_sentences(issue))}'


def _sentences(issue: KnownIssue) -> Iterator[str]:
    yield issue.effect
    if issue.instead:
        yield f"*Instead*: {issue.instead}"
    if issue.fixed_in:
        yield f"*Fixed in* {issue.fixed_in}."
