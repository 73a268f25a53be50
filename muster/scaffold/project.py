"""The files of a new project, as text.

Responsible for: which files a project has, and what is in them for its provider and stacks. Pure but for
reading the templates beside this module.
"""

import difflib
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import yaml

from muster import distribution, paths
from muster.config.edit import template as stack_file
from muster.config.schema import stack_schema
from muster.config.schema.keys import project_config
from muster.distribution import installed_wheel, wheel_name
from muster.errors import MusterError
from muster.model.names import is_production
from muster.model.regions import Provider
from muster.validation.identities import is_dns_label

# Muster's wheel in a project: requirements.txt names the file and its digest, so that pip asks no index.

FOLDER: Final = "wheels"


def wheel_of(folder: Path, version: str, *, prefer_installed: bool) -> Path | None:
    """The wheel for the project in `folder`: its copy, or what Muster was installed from."""
    copy = folder / FOLDER / wheel_name(version)
    places = [copy if copy.is_file() else None, installed_wheel(version)]
    if prefer_installed:
        places.reverse()
    return next((each for each in places if each is not None), None)


def digest_of(wheel: Path) -> str:
    """SHA-256 in hex."""
    with wheel.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def take_along(wheel: Path, folder: Path) -> Path | None:
    """Copy the wheel into the project. Returns the copy; None if the project has the same file already."""
    copy = folder / FOLDER / wheel.name
    try:
        if copy.is_file() and digest_of(copy) == digest_of(wheel):
            return None
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wheel, copy)
    except OSError as error:
        fix = f"copy {wheel} into {copy.parent} yourself."
        raise MusterError(f"{copy} cannot be written: {error.strerror}.", fix=fix) from None
    return copy


FILES: Final = Path(__file__).parent / "files"
SCHEMA: Final = "schema.json"
"""The schema's file, beside the stack files. Their first line names it, for editors."""


class Target(StrEnum):
    """Where the clusters of a project are: a `Provider`, or the local cluster of this machine."""

    GKE = "gke"
    EKS = "eks"
    EXISTING = "existing"
    LOCAL = "local"

    @property
    def extra(self) -> str:
        """The extra of the wheel that its program needs."""
        return "program" if self is Target.EXISTING else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What the templates need. `stacks` are deployed in this order; `version` is Muster's."""

    target: Target
    stacks: tuple[str, ...]
    version: str
    wheel_digest: str = ""
    """SHA-256 in hex of the wheel of that version; empty where the project has none yet."""


def files(project: Project) -> dict[str, str]:
    """The files that an update compares and replaces: path in the project -> text."""
    fill = _Filler(project)
    return {
        "Pulumi.yaml": fill("Pulumi.yaml"),
        "__main__.py": fill("main.py"),
        "requirements.txt": fill("requirements.txt"),
        "constraints.txt": (paths.REQUIREMENTS / "constraints.txt").read_text(encoding="utf-8"),
        ".gitignore": fill("gitignore"),
        "README.md": fill("README.md"),
        "policies/PulumiPolicy.yaml": fill("policies/PulumiPolicy.yaml"),
        "policies/__main__.py": fill("policies/main.py"),
        ".github/workflows/muster-preview.yml": fill("github/preview.yml"),
        ".github/workflows/muster-up.yml": fill("github/up.yml"),
        ".github/workflows/muster-drift.yml": fill("github/drift.yml"),
        ".gitlab/muster.yml": fill("gitlab/muster.yml"),
        f"{paths.STACKS}/{SCHEMA}": schema_text(),
    }


def examples(project: Project) -> dict[str, str]:
    """The files that the user edits, and that no update touches: path in the project -> text."""
    fill = _Filler(project)
    found = {
        ".gitlab-ci.yml": fill("gitlab/gitlab-ci.yml"),
        "policies/own_rules.py": fill("policies/own_rules.py"),
    }
    for name in project.stacks:
        found[f"{paths.STACKS}/Pulumi.{name}.yaml"] = with_schema(stack_text(project.target, name))
        found |= lenient_policies(name)
    return found


def lenient_policies(name: str) -> dict[str, str]:
    """The levels of the policies for a stack that is not production: path in the project -> text."""
    return {} if is_production(name) else {f"policies/{name}.json": _read("policies/lenient.json")}


def _pack(name: str) -> str:
    """The options of `pulumi preview` for the policies of a stack."""
    return "--policy-pack policies" + (
        "" if is_production(name) else f" --policy-pack-config policies/{name}.json"
    )


def stack_text(target: Target, name: str) -> str:
    """A new stack file."""
    if target is Target.LOCAL:
        return _read("stacks/local.yaml").replace("@NAME@", name)
    return stack_file(name, Provider(target.value))


def schema_text() -> str:
    """The schema's file."""
    return json.dumps(stack_schema(), indent=2) + "\n"


def with_schema(text: str) -> str:
    """A stack file in a folder that has the schema: an editor with the YAML language server uses it."""
    return f"# yaml-language-server: $schema={SCHEMA}\n{text}"


def _read(name: str) -> str:
    return (FILES / f"{name}.template").read_text(encoding="utf-8")


class _Filler:
    """Replaces `@WORD@` in a template. A line that is a word alone becomes the lines of its value, if any."""

    def __init__(self, project: Project) -> None:
        first = project.stacks[0]
        self._values = {
            "EXTRA": project.target.extra,
            "DISTRIBUTION": distribution.NAME,
            "WHEEL": _wheel(project),
            "NEW_WHEEL": distribution.wheel_name("NEW"),
            "CONFIG": project_config(),
            "STACK_LIST": ", ".join(project.stacks),
            "PULUMI_VERSION": _pinned("pulumi"),
            "CLOUD_LOGIN": _indented(_LOGIN[project.target]),
            "NEXT": _NEXT[project.target].replace("@NAME@", first).replace("@PACK@", _pack(first)),
        }
        self._stacks = project.stacks

    def __call__(self, name: str) -> str:
        folder = name.split("/", maxsplit=1)[0]
        jobs = "\n".join(self._jobs(folder)) if folder in _NEEDS else ""
        return _fill(_read(name), {**self._values, "JOBS": jobs.rstrip("\n")})

    def _jobs(self, forge: str) -> Iterator[str]:
        """One job for each stack; each waits for the one before it."""
        template = _read(f"{forge}/up-job.yml")
        for before, name in zip((None, *self._stacks), self._stacks, strict=False):
            needs = "" if before is None else _NEEDS[forge].replace("@BEFORE@", before)
            manual = "" if before is None else "      when: manual"
            yield _fill(template, {**self._values, "NAME": name, "NEEDS": needs, "MANUAL": manual})


def _fill(text: str, values: Mapping[str, str]) -> str:
    filled: list[str] = []
    for line in text.splitlines():
        word = line[1:-1] if len(line) > 2 and line[0] == line[-1] == "@" else None
        if word is not None and word in values:
            filled += values[word].splitlines()
            continue
        for name, value in values.items():
            line = line.replace(f"@{name}@", value)
        filled.append(line)
    return "\n".join(filled) + "\n"


def _wheel(project: Project) -> str:
    """As pip's requirements name it. The option `--hash` would oblige every other requirement to have one."""
    name = distribution.wheel_name(project.version)
    return f"{name}#sha256={project.wheel_digest}" if project.wheel_digest else name


def _pinned(package: str) -> str:
    """The version of a package in the constraints."""
    for line in (paths.REQUIREMENTS / "constraints.txt").read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition("==")
        if name == package:
            return rest.split()[0]
    raise LookupError(f"constraints.txt pins no {package}: run `make lock`")


def _indented(steps: Sequence[str]) -> str:
    return "\n".join(f"      {line}" for line in steps)


_NEEDS: Final = {"github": "    needs: @BEFORE@", "gitlab": "  needs: [muster up @BEFORE@]"}
_LOGIN: Final[Mapping[Target, Sequence[str]]] = {
    Target.GKE: (
        "- uses: google-github-actions/auth@FILL-IN",
        '  with: { workload_identity_provider: "${{ vars.WORKLOAD_IDENTITY_PROVIDER }}" }',
        "- uses: google-github-actions/setup-gcloud@FILL-IN # the kubeconfig of GKE calls the plugin",
        "  with: { install_components: gke-gcloud-auth-plugin }",
    ),
    Target.EKS: (
        "- uses: aws-actions/configure-aws-credentials@FILL-IN",
        '  with: { role-to-assume: "${{ vars.AWS_ROLE }}", aws-region: "${{ vars.AWS_REGION }}" }',
    ),
    Target.EXISTING: ("# Add a step here that writes the kubeconfig of the cluster.",),
    Target.LOCAL: (),
}
_INSTALL: Final = "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"
_CLOUD: Final = f"""\
{_INSTALL} && .venv/bin/muster validate   # edit stacks/Pulumi.@NAME@.yaml first
.venv/bin/muster image push @NAME@@WHERE@
pulumi stack init @NAME@ && pulumi preview --stack @NAME@ @PACK@"""
_NEXT: Final[Mapping[Target, str]] = {
    Target.GKE: _CLOUD.replace("@WHERE@", ""),
    Target.EKS: _CLOUD.replace("@WHERE@", ""),
    Target.EXISTING: _CLOUD.replace("@WHERE@", " --repository HOST/PATH"),
    Target.LOCAL: f"""\
{_INSTALL} && .venv/bin/muster validate
.venv/bin/muster local up && eval "$(.venv/bin/muster local env)"
pulumi stack init @NAME@ && pulumi up --stack @NAME@""",
}


# The record of what `muster init` wrote into a project: `.muster.yaml`.
#
# Responsible for: the choices that were made, and the digest of each file as it was written, by which an
# update distinguishes a change of the user from a change of the templates.

FILE: Final = ".muster.yaml"
_HEAD: Final = "# Written by `muster init`; `muster init --update` reads it. Leave it in version control.\n"


@dataclass(frozen=True, slots=True)
class Record:
    """`written`: path in the project -> digest of the text that `muster init` wrote or proposed last."""

    project: Project
    written: Mapping[str, str]


def digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def format_record(record: Record) -> str:
    project = record.project
    content = {
        "version": project.version,
        "provider": project.target.value,
        "stacks": list(project.stacks),
        "files": dict(sorted(record.written.items())),
    }
    return _HEAD + yaml.safe_dump(content, sort_keys=False, default_flow_style=False, width=200)


def read_record(folder: Path) -> Record:
    """MusterError where there is none, or it cannot be read."""
    path = folder / FILE
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
        project = Project(
            target=Target(found["provider"]),
            stacks=tuple(map(str, found["stacks"])),
            version=str(found["version"]),
        )
        if not project.stacks:
            raise ValueError("it lists no stack")
        return Record(project, {str(name): str(value) for name, value in found["files"].items()})
    except FileNotFoundError:
        fix = "name the folder of a project that `muster init` made, or run `muster init` without --update."
        raise MusterError(f"{folder} has no {FILE}.", fix=fix) from None
    except (OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
        fix = f"restore {FILE} from version control."
        raise MusterError(f"{path} cannot be read: {error}", fix=fix) from None


# Writes a new project.


@dataclass(frozen=True, slots=True)
class Written:
    """The paths that were written and those that were there already, each in the project."""

    written: Sequence[str]
    kept: Sequence[str]


def write_project(project: Project, folder: Path, *, force: bool) -> Written:
    """Write all files of the project. A file that exists stays as it is, unless `force`."""
    for name in project.stacks:
        if not is_dns_label(name):
            fix = "use at most 63 of a-z, 0-9 and -."
            raise MusterError(f"{name!r} cannot be the name of a stack.", fix=fix)
    if len(set(project.stacks)) < len(project.stacks):
        raise MusterError(
            f"a stack is named twice: {', '.join(project.stacks)}.", fix="name each stack once."
        )
    templates = files(project)
    everything = {**templates, **examples(project)}
    record = Record(project, {name: digest(text) for name, text in templates.items()})
    everything[FILE] = format_record(record)
    kept = [] if force else [name for name in everything if (folder / name).exists() and name != FILE]
    written = [name for name in everything if name not in kept]
    for name in written:
        write_file(folder / name, everything[name])
    return Written(written, kept)


def write_file(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fix = "choose a folder that you may write to."
        raise MusterError(f"{path} cannot be written: {error.strerror}.", fix=fix) from None


# Compares a project with the templates of this version of Muster.
#
# Responsible for: telling what the templates changed from what the user changed, by the digests of the
# record. A file whose template did not change is left out, however the user edited it.

BESIDE: Final = ".new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A file that a newer template would change. `found` is None where there is no such file yet."""

    path: str
    found: str | None
    proposed: str
    is_edited: bool
    """The user edited the file: it is not replaced; the new text goes into a file beside it."""

    @property
    def target(self) -> str:
        return self.path + BESIDE if self.is_edited else self.path

    def diff(self) -> Iterator[str]:
        """The lines of a unified diff."""
        before = [] if self.found is None else self.found.splitlines(keepends=True)
        old = "/dev/null" if self.found is None else f"a/{self.path}"
        yield from difflib.unified_diff(
            before, self.proposed.splitlines(keepends=True), fromfile=old, tofile=f"b/{self.path}"
        )


@dataclass(frozen=True, slots=True)
class Update:
    """What this version changes in a project."""

    folder: Path
    record: Record
    """As it is once the update is applied."""

    changes: Sequence[Change]

    def apply(self) -> None:
        for change in self.changes:
            write_file(self.folder / change.target, change.proposed)
        write_file(self.folder / FILE, format_record(self.record))


def compare(folder: Path, *, version: str, wheel_digest: str = "") -> Update:
    """Compare the project in `folder` with the templates; MusterError where none is there."""
    record = read_record(folder)
    project = replace(record.project, version=version, wheel_digest=wheel_digest)
    proposed = files(project)
    changes = [
        change
        for path, text in proposed.items()
        if (change := _change(folder, path, text, written=record.written.get(path))) is not None
    ]
    return Update(folder, Record(project, {path: digest(text) for path, text in proposed.items()}), changes)


def _change(folder: Path, path: str, proposed: str, *, written: str | None) -> Change | None:
    try:
        found = (folder / path).read_text(encoding="utf-8")
    except FileNotFoundError:
        # A file that was written and is gone was deleted by the user.
        is_new = written is None
        return Change(path=path, found=None, proposed=proposed, is_edited=False) if is_new else None
    except (OSError, UnicodeDecodeError) as error:
        fix = "make it a readable text file, or delete it."
        raise MusterError(f"{folder / path} cannot be read: {error}", fix=fix) from None
    if found == proposed or digest(proposed) == written:
        return None
    return Change(path=path, found=found, proposed=proposed, is_edited=digest(found) != written)
