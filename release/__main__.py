"""Makes the files of a release into build/release: `make release`."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from muster.config.stack import today
from muster.distribution import version as version_of_checkout
from muster.errors import MusterError
from release import git, packages
from release.agreement import Checkout, disagreements
from release.changelog import UNRELEASED, Section, sections
from release.errors import ReleaseError
from release.facts import facts, old_facts, undated_links
from release.provenance import statement
from release.security import insights, load_statements, vex
from release.signing import load_key, sign

ROOT: Final = Path(__file__).resolve().parents[1]
CHECKSUMS: Final = "SHA256SUMS"
# What the build installs from.
_LOCKS: Final = ("requirements/dev.txt", "muster/artifacts/data/versions.toml")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build/release", help="the folder; it is emptied")
    parser.add_argument(
        "--draft",
        action="store_true",
        help="make it although something disagrees; the notes are of what is unreleased",
    )
    parser.add_argument("--without-image", action="store_true", help="leave out the controller's image")
    parser.add_argument(
        "--old-fact",
        action="append",
        default=[],
        metavar="SUBJECT",
        help="release although these facts are old, as `python -m release.facts` names them; can be repeated",
    )
    parser.add_argument(
        "--key",
        default="",
        metavar="KEY",
        help="sign the checksums: a PEM file, awskms:///ID or gcpkms://...",
    )
    parser.add_argument(
        "--repository", default="", metavar="URL", help="write SECURITY-INSIGHTS.yml of the repository there"
    )
    given = parser.parse_args()
    try:
        _release(given)
    except MusterError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("release: interrupted. Fix: run it again; it begins anew.", file=sys.stderr)
        return 130
    return 0


def _release(given: argparse.Namespace) -> None:
    out, is_draft = given.out, given.draft
    started, version = datetime.now(UTC), version_of_checkout()
    # Before the parts are built: a key that cannot be read would waste the build.
    key, assessed = load_key(given.key) if given.key else None, load_statements()
    commit, made_at = git.commit(ROOT), git.committed_at(ROOT)
    known = sections((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    checkout = Checkout(
        version=version,
        commit=commit,
        tagged=git.commit_of_tag(ROOT, f"v{version}"),
        changed=git.changed(ROOT),
    )
    old = old_facts(facts(), day=today(), accepted=given.old_fact)
    found = [*disagreements(checkout, known), *undated_links(), *old]
    if found and not is_draft:
        raise ReleaseError("\n".join(["not made:", *found, "Or rehearse it with `make release DRAFT=1`."]))
    for line in found:
        print(f"draft: {line}", file=sys.stderr)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for name, make in _parts(
        out, version=version, made_at=made_at, has_image=not given.without_image, is_draft=is_draft
    ).items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        make()
    name, email = git.committer(ROOT)
    if assessed:
        document = vex(assessed, author=f"{name} <{email}>", version=version, made_at=made_at)
        (out / f"muster-{version}.openvex.json").write_bytes(document)
    if given.repository:
        text = insights(repository=given.repository.rstrip("/"), name=name, email=email, made_at=made_at)
        (out / "SECURITY-INSIGHTS.yml").write_text(text, encoding="utf-8")
    (out / "NOTES.md").write_text(_notes(version, known, is_draft=is_draft), encoding="utf-8")
    digests = _digests(out)
    inputs = {name: _sha256(ROOT / name) for name in _LOCKS}
    provenance = out / f"muster-{version}.provenance.json"
    finished = datetime.now(UTC)
    provenance.write_bytes(
        statement(digests, commit=commit, inputs=inputs, version=version, started=started, finished=finished)
    )
    (out / CHECKSUMS).write_text(_checksums(_digests(out)), encoding="utf-8")
    if key:
        sign(out / CHECKSUMS, key)
    for file in sorted(out.iterdir()):
        print(f"{file.stat().st_size / 1e6:8.1f} MB  {file}")


def _parts(
    out: Path, *, version: str, made_at: int, has_image: bool, is_draft: bool
) -> Mapping[str, Callable[[], None]]:
    parts: dict[str, Callable[[], None]] = {
        "Python package": lambda: packages.python_package(ROOT, out, version=version, made_at=made_at),
        "site": lambda: packages.site(ROOT, out, version=version, made_at=made_at),
    }
    if has_image:
        parts["image"] = lambda: packages.image(out, version=version, made_at=made_at, is_draft=is_draft)
    return parts


def _notes(version: str, known: list[Section], *, is_draft: bool) -> str:
    wanted = (UNRELEASED, version) if is_draft else (version,)
    text = next((each.text for each in known if each.name in wanted), "")
    title = f"# Muster {version}" + (" (draft)" if is_draft else "")
    return f"{title}\n\n{text}\n"


def _digests(folder: Path) -> dict[str, str]:
    return {file.name: _sha256(file) for file in sorted(folder.iterdir()) if file.name != CHECKSUMS}


def _checksums(digests: Mapping[str, str]) -> str:
    """As `sha256sum --check` reads it."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
