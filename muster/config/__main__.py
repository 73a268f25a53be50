"""`muster`: check stack files, or write a new one.

validate  exit 0 when every file is a stack, 1 when one is not; warnings do not count
new       exit 0 when the file was written, 1 when not
"""

import argparse
import json
import sys
from pathlib import Path

from muster.config.document import Document, read
from muster.config.errors import describe, nearest_line
from muster.config.scaffold import ScaffoldError, write_stack
from muster.config.stack import examine
from muster.model.providers import Provider
from muster.model.violations import Violation


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; the exit code."""
    options = _options(arguments)
    if options.command == "new":
        return _new(options.name, Provider(options.provider), Path(options.folder))
    return _validate([Path(name) for name in options.files], as_json=options.json)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="muster", description="Check or write stack files.")
    commands = parser.add_subparsers(dest="command", required=True)
    validate = commands.add_parser("validate", help="check stack files, offline")
    validate.add_argument("files", nargs="+", metavar="FILE", help="stacks/Pulumi.<stack>.yaml")
    validate.add_argument("--json", action="store_true", help="one JSON object with every violation")
    new = commands.add_parser("new", help="write a new, valid stack file")
    new.add_argument("name", metavar="NAME", help="the stack's name")
    new.add_argument("--provider", required=True, choices=[provider.value for provider in Provider])
    new.add_argument("--folder", default="stacks", help="where stack files are (default: %(default)s)")
    return parser.parse_args(arguments)


def _new(name: str, provider: Provider, folder: Path) -> int:
    try:
        path = write_stack(name, provider, folder=folder)
    except (ScaffoldError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    where = " REPOSITORY=host/path" if provider is Provider.EXISTING else ""
    push = f"make image push STACK={name}{where}"
    print(f"{path} written. Next: edit it, publish the controller's image (`{push}`),")
    print(f"then `pulumi stack init {name}` and `pulumi preview -s {name}`.")
    return 0


def _validate(files: list[Path], *, as_json: bool) -> int:
    documents = [read(path) for path in files]
    found = [(document, examine(document)[1]) for document in documents]
    if as_json:
        print(
            json.dumps({"files": [_report(document, violations) for document, violations in found]}, indent=2)
        )
    else:
        for document, violations in found:
            _tell(document, violations)
    return 1 if any(violation.level == "error" for _, violations in found for violation in violations) else 0


def _tell(document: Document, violations: list[Violation]) -> None:
    for violation in violations:
        line = nearest_line(document.lines, violation.path)
        level = "warning: " if violation.level == "warning" else ""
        print(level + describe(violation, source=document.source, line=line), file=sys.stderr)
    errors = sum(violation.level == "error" for violation in violations)
    verdict = "is a stack" if not errors else "1 mistake" if errors == 1 else f"{errors} mistakes"
    print(f"{document.source}: {verdict}")


def _report(document: Document, violations: list[Violation]) -> dict[str, object]:
    told = [
        {
            "path": violation.path,
            "line": nearest_line(document.lines, violation.path),
            "message": violation.message,
            "fix": violation.fix,
            "level": violation.level,
        }
        for violation in violations
    ]
    return {
        "file": document.source,
        "valid": not any(item["level"] == "error" for item in told),
        "violations": told,
    }


if __name__ == "__main__":
    sys.exit(main())
