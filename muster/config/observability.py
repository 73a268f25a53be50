"""Reads `muster:observability`.

Not responsible for whether a cluster has what the settings need (muster/validation).
"""

from muster.model.observability import Observability, Scraping
from muster.model.section import Section


def parse_observability(section: Section) -> Observability:
    known = Observability()
    sample = section.number("sample", least=0, most=1)
    found = Observability(
        metrics=section.choice("metrics", Scraping, known.metrics) or known.metrics,
        alerts=section.flag("alerts", known.alerts),
        runbooks=section.text("runbooks"),
        dashboard=section.flag("dashboard", known.dashboard),
        labels=section.texts("labels"),
        traces=section.text("traces"),
        sample=known.sample if sample is None else sample,
    )
    section.close()
    return found
