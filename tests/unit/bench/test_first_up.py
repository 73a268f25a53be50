"""What the bench of first starts makes of the demo's output."""

from bench.first_up import Round, parse_steps, table

OUTPUT = (
    "...\nlocal cluster ready in 10 s, pulumi up in 25 s, gang story in 61 s\n\nLook around:\n  make down\n"
)


def test_the_demos_own_times_are_read() -> None:
    assert parse_steps(OUTPUT) == {"local cluster": 10, "pulumi up": 25, "gang story": 61}
    assert parse_steps("Error: pulumi up ended with exit code 255.") == {}


def test_the_table_counts_failed_rounds_and_leaves_their_times_out() -> None:
    passed = [Round(0, seconds, "", {"pulumi up": seconds / 2}) for seconds in (80.0, 100.0, 90.0)]
    text = table([*passed, Round(1, 300.0, "")])
    assert text.startswith("3 of 4\n")
    assert "| pulumi up | 40 | 45 | 50 |" in text
    assert "| all | 80 | 90 | 100 |" in text
    assert table([Round(1, 300.0, "")]) == "0 of 1"
