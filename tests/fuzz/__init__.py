"""What Muster reads of strangers, with bytes changed at random: an answer or one error, and nothing else.

    python -m tests.fuzz --seconds 600    every importer for ten minutes, as the nightly file does

Every importer gets files that it takes, with bytes changed, left out, doubled and added. It reads the file
or raises MusterError, within `mutations.MOST_BYTES` of memory.
"""
