"""Counts with their noun, as messages and reports write them."""


def many(count: int, noun: str, plural: str = "") -> str:
    """`1 team`, `2 teams`. `plural`: of a noun that takes more than an s."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"
