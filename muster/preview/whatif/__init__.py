"""Simulates what would happen to running and pending work: the scheduler's own code decides, in one process.

    scenario.py   the work, how long jobs run, a snapshot for users who have no cluster yet, and what was
                  decided about each Workload
    kueue.py      the objects that Kueue decides by, and both sides in its player
    kai.py        a stack that KAI schedules: what its player gets, and both sides compared
    report.py     base and head compared, as a report, or why nothing is decided

The user's cluster is never written to, and only the snapshot is read from it.
"""
