"""Simulates what would happen to running and pending work: Kueue's own scheduler decides, in one process
where it can, otherwise on a temporary control plane.

    scenario.py       the work, how long jobs run, a snapshot for users who have no cluster yet, and what was
                      decided about each Workload
    player.py         one side in the player, in logical time
    job_simulator.py  acts for the jobs: releases quota after an eviction, and finishes after their duration;
                      detects whether Kueue is done, or only has no CPU time
    simulate.py       one side on a control plane, from an empty etcd to its outcome
    both.py           base and head: the objects that are created there, which trees of cohorts are equal in
                      both, and their simulation
    report.py         base and head compared, as a report
    kai.py            a stack that KAI schedules: what its player gets, and both sides compared

The user's cluster is never written to, and only the snapshot is read from it.
"""
