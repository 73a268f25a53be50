"""What a manager says of itself on its port: whether it is ready, and what it has counted."""

import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def asks(port: int, path: str) -> tuple[int, str]:
    """Status and body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def is_ready(port: int) -> bool:
    return asks(port, "readyz")[0] == 200


def counted(port: int, metric: str, **labels: str) -> float:
    """The sum of what it has counted under these labels."""
    families = text_string_to_metric_families(asks(port, "metrics")[1])
    samples = (each for family in families for each in family.samples if each.name == metric)
    return sum(each.value for each in samples if labels.items() <= each.labels.items())
