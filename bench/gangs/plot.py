"""The results as an SVG: a row for each case, a panel for each figure, a bar for each contender."""

from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.gangs.columns import COLUMNS, Column
from bench.gangs.results import Results, over
from bench.gangs.table import LABELS

_COLOURS: Final = {
    "builtin": "#9aa5b1",
    "muster": "#2f7ed8",
    "builtin-tuned": "#c9d1d9",
    "muster-tuned": "#8ab8ee",
}
_SHOWN: Final = (
    "admitted",
    "quota to request, p99",
    "Provisioned to Ready, p99",
    "calls a gang",
    "CPU a gang",
    "quota-time lost",
)


def draw(results: Results, path: Path) -> None:
    """The same results give the same file."""
    columns = [column for column in COLUMNS if column.title in _SHOWN]
    cases = results.cases()
    if not cases:
        return
    with mpl.rc_context({"svg.hashsalt": "muster", "font.size": 8, "svg.fonttype": "none"}):
        figure = Figure(figsize=(2.1 * len(columns), 1.9 * len(cases) + 0.6), layout="constrained")
        axes = figure.subplots(len(cases), len(columns), squeeze=False)
        for row, case in enumerate(cases):
            for place, column in enumerate(columns):
                _panel(axes[row][place], results, case, column)
            axes[row][0].set_ylabel(case, fontsize=9, fontweight="bold")
        names = list(dict.fromkeys(name for case in cases for name in results.contenders(case)))
        bars = [mpl.patches.Patch(color=_COLOURS.get(name, "#555555")) for name in names]
        labels = [LABELS.get(name, name) for name in names]
        if any(trial.is_cut_short for trial in results.trials):
            bars.append(mpl.patches.Patch(facecolor="#888888", edgecolor="white", hatch="//"))
            labels.append("cut short")
        figure.legend(bars, labels, loc="outside upper center", ncols=5)
        figure.savefig(path, metadata={"Date": None})


def _panel(axes: Axes, results: Results, case: str, column: Column) -> None:
    found = {name: over(results.of(case, name), column.figure) for name in results.contenders(case)}
    axes.set_xticks([])
    axes.spines[["top", "right"]].set_visible(False)
    unit = f" ({column.unit})" if column.unit else ""
    axes.set_title(
        f"{column.named(results.of(case))}{unit}\n{'more' if column.is_more_better else 'less'} is better",
        fontsize=7,
    )
    for place, (name, each) in enumerate(found.items()):
        if each is None:
            continue
        low, high = each.median - each.least, each.most - each.median
        axes.bar(
            place,
            each.median,
            color=_COLOURS.get(name, "#555555"),
            yerr=[[low], [high]],
            capsize=2,
            hatch="//" if any(trial.is_cut_short for trial in results.of(case, name)) else "",
            edgecolor="white",
            ecolor="#333",
        )
    if not any(found.values()):
        axes.set_axis_off()
