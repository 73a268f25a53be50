"""Recordings of a cluster's jobs.

    recording.Recording       who asked for what, when it ran and why it stopped: plain data
    recording_file            reads one from its file, and goes on with a file after it was killed
    figures.summarize         waits, GPU-hours and evictions by team
    assumptions.Assumptions   how long jobs run and when their nodes are there, in a replay
    player.play               plays jobs through Kueue's own scheduler in logical time
    forecast.forecast         when waiting jobs start, counted in many drawn futures
    forecaster.follow         writes forecasts onto a cluster's Workloads, in the recorder's pod

docs/replay.md describes the file's format.
"""
