"""A report as the terminal of this process shows it."""

import shutil

from muster.cli.output import has_colour
from muster.preview.document import Report
from muster.preview.terminal import format_terminal


def for_terminal(report: Report, *, has_details: bool = False) -> str:
    columns = shutil.get_terminal_size().columns
    return format_terminal(report, columns=columns, has_colour=has_colour(), has_details=has_details)
