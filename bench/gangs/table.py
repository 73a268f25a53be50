"""The results as Markdown."""

from collections.abc import Iterator
from typing import Final

from bench.gangs.columns import COLUMNS, Column
from bench.gangs.figures import Spread
from bench.gangs.results import Results, over

LABELS: Final = {
    "builtin": "built-in",
    "muster": "Muster",
    "builtin-tuned": "built-in, Kueue tuned",
    "muster-tuned": "Muster, Kueue tuned",
}


def markdown(results: Results) -> str:
    lines = [
        "# Kueue's own provisioning check and Muster's, measured",
        "",
        f"{results.machine}; load average {results.machine.load:.1f} when it began; {results.when}.",
        "Made by `make bench`. Each figure is the median of its trials; in brackets the least and the most.",
    ]
    for case in results.cases():
        lines += ["", f"## {case}", "", *_table(results, case)]
    for name, found in results.alone.items():
        lines += ["", f"## {name}", "", "| figure | |", "|---|---:|"]
        lines += [f"| {figure} | {value:,.2f} |" for figure, value in found.items()]
    return "\n".join(lines) + "\n"


def _table(results: Results, case: str) -> Iterator[str]:
    contenders = results.contenders(case)
    shown = [column for column in COLUMNS if over(results.of(case), column.figure) is not None]
    yield "| | " + " | ".join(LABELS.get(name, name) for name in contenders) + " |"
    yield "|---|" + "---:|" * len(contenders)
    for column in shown:
        cells = (_cell(over(results.of(case, name), column.figure), column) for name in contenders)
        yield f"| {_title(column)} | " + " | ".join(cells) + " |"
    yield "| trials | " + " | ".join(str(len(results.of(case, name))) for name in contenders) + " |"
    short = {name: sum(each.is_cut_short for each in results.of(case, name)) for name in contenders}
    if any(short.values()):
        yield "| of these cut short | " + " | ".join(str(short[name]) for name in contenders) + " |"


def _title(column: Column) -> str:
    return f"{column.title}, {column.unit}" if column.unit else column.title


def _cell(found: Spread | None, column: Column) -> str:
    if found is None:
        return ""
    low, middle, high = (f"{value:,.{column.digits}f}" for value in (found.least, found.median, found.most))
    return middle if low == high else f"{middle} ({low} to {high})"
