"""Versions that a stack names: within what Muster supports, of something that it installs, and the same for a
chart and its image.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from typing import Final

from muster.model.gpu_operator import FIRST_BY_CDI, installation
from muster.model.names import is_production
from muster.model.programs import PLACEMENTS, Program, Version
from muster.model.stack import ArtifactSource, Scheduler, Stack, VersionLevel
from muster.model.versions import (
    FIRST_UNKNOWN,
    Outlook,
    Phase,
    Reading,
    out_of_range,
    outlook,
    reading_of,
)
from muster.model.violations import Violation, at

# Warns of a Kubernetes version whose support ends, or has ended.
# Only a warning: whether the cluster exists is not known here, and an existing one has to stay deployable.
# The doctor and the policy pack, which know, refuse a new cluster of such a version.


def support_rules(stack: Stack, *, today: date) -> Iterator[Violation]:
    """At most one warning, at the cluster's version."""
    found = cluster_outlook(stack, today=today)
    if found is None or found.phase is Phase.SUPPORTED:
        return
    new = " A new cluster of it is refused." if found.refuses_new else ""
    message = f"{found.message}.{new} Source: {found.support.source}."
    yield Violation("muster:cluster.version", message, found.fix, level="warning")


def cluster_outlook(stack: Stack, *, today: date) -> Outlook | None:
    """None for a cluster that is not ours, or whose version the cloud chooses."""
    cluster = stack.cluster
    if not (cluster.is_ours and cluster.version):
        return None
    extended = cluster.has_extended_support
    return outlook(cluster.provider, cluster.version, today=today, extended=extended)


_PATH: Final = "muster:versions"
_REQUIRE: Final = at(_PATH, "require")
_KEYS: Final = {Program.GPU_OPERATOR: "gpuOperator"}
# Images that a chart's version names, by the program of the chart.
_IMAGES: Final = {Program.KUEUE: "kueue", Program.KUBERAY: "kuberay"}
_TAG: Final = re.compile(r":(v?\d+\.\d+\.\d+[^@/:]*)(?:@|\Z)")


def version_rules(stack: Stack) -> list[Violation]:
    named = {Program(name): text for name, text in stack.versions.items()}
    found = [violation for program, text in named.items() for violation in _judge(stack, program, text)]
    if found or not named or stack.artifacts is not ArtifactSource.LOCAL:
        return found
    message = "has no effect with `muster:artifacts: local`, which takes what was built on this machine."
    return [Violation(_PATH, message, "remove it, or write `muster:artifacts: upstream`.")]


def read_version_rules(stack: Stack, *, name: str) -> Iterator[Violation]:
    """Versions that no suite has run: refused where the stack, or its name, requires one that was run.
    Otherwise a warning of each, and of each action of its notes that touches the stack.
    """
    by_name = VersionLevel.RUN if is_production(name) else VersionLevel.READ
    level = stack.version_level or by_name
    for component, text in stack.versions.items():
        program, version = Program(component), _read(text)
        reading = None if version is None else reading_of(component, version)
        if version is not None and reading is not None and _is_installed(stack, program):
            yield from _only_read(stack, program, version, reading, level)


def _only_read(
    stack: Stack, program: Program, version: Version, reading: Reading, level: VersionLevel
) -> Iterator[Violation]:
    path, newest = _path(program), FIRST_UNKNOWN[program.value]
    if level is VersionLevel.RUN:
        message = f"{version} was not run by Muster's suites, and this stack requires that (`{_REQUIRE}`)."
        yield Violation(path, message, f"use a version below {newest}, or write `{_REQUIRE}: read`.")
        return
    touching = list(reading.touching(version, stack))
    message = (
        f"{version} was not run by Muster's suites. Its notes were read on {reading.read}: of "
        f"{len(reading.required(version))} required actions this stack is touched by {len(touching)}."
    )
    fix = f"follow those below, if any, and try it without work that counts; or use a version below {newest}."
    yield Violation(path, message, fix, level="warning")
    for where, action in touching:
        summary = f"{PLACEMENTS[program].title} {version}: {action.summary}."
        yield Violation(where, summary, action.fix, level="warning")


def _judge(stack: Stack, program: Program, text: str) -> Iterator[Violation]:
    path, title = _path(program), PLACEMENTS[program].title
    try:
        Version.of(text)
    except ValueError:
        yield Violation(path, f"{text!r} is no version.", "write it with three numbers, in quotes.")
        return
    if text.count(".") < 2:
        yield Violation(path, f"{text!r} is no whole version.", f'write its patch, too: "{text}.0".')
        return
    if problem := out_of_range(program.value, text):
        yield Violation(path, problem.message, problem.fix)
    elif not _is_installed(stack, program):
        yield Violation(path, f"has no effect: this stack does not install {title}.", "remove it.")
    elif program is Program.GPU_OPERATOR and Version.of(text) < FIRST_BY_CDI and _has_plugin(stack):
        message = (
            f"{text} names a container's GPUs by a variable that any container may write, and the nodes of "
            "this stack do not obey it: its pods would get none."
        )
        yield Violation(path, message, f"use {FIRST_BY_CDI} or newer, which names them by CDI.")
    yield from _pinned(stack, program, text, path)


def _path(program: Program) -> str:
    return at(_PATH, _KEYS.get(program, program.value))


def _is_installed(stack: Stack, program: Program) -> bool:
    if program is Program.GPU_OPERATOR and stack.artifacts is ArtifactSource.UPSTREAM:
        return installation(stack) is not None
    is_other = program in {each.program for each in Scheduler} - {stack.scheduler.program}
    return not is_other and stack.installs(program)


def _has_plugin(stack: Stack) -> bool:
    wanted = installation(stack)
    return wanted is not None and wanted.has_plugin


def _pinned(stack: Stack, program: Program, text: str, path: str) -> Iterator[Violation]:
    """An image that the stack pins is not raised by the version: both have to be changed."""
    reference = stack.images.pinned.get(_IMAGES.get(program, ""))
    if reference is None:
        return
    key = at("muster:images", _IMAGES[program])
    fix = f"remove `{key}` and run `muster image pin STACK`, which writes the digest of {text}."
    tag = _TAG.search(reference)
    pinned = _read(tag[1]) if tag else None
    if tag is None or pinned is None:
        message = f"is {text}, and `{key}` pins an image whose tag is no version."
        yield Violation(path, message, f"if it is older, {fix}", level="warning")
    elif pinned != Version.of(text):
        yield Violation(path, f"is {text}, and `{key}` pins the image of {tag[1]}.", fix)


def _read(tag: str) -> Version | None:
    with suppress(ValueError):
        return Version.of(tag)
    return None
