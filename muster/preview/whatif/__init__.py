"""Simulates what would happen to running and pending work: Kueue's own scheduler decides, in one process
where it can, otherwise on a temporary control plane.

    scenario.py       the work, and how long jobs run
    fixtures.py       which objects of a stack are created there, and how Kueue is configured
    player.py         one side in the player, in logical time
    stored.py         a snapshot's Workload as the API server stores it
    etcd.py           writes objects straight into etcd, with their original times
    job_simulator.py  acts for the jobs: releases quota after an eviction, and finishes after their duration
    readiness.py      waits until Kueue knows which quota is in use
    rights.py         what Kueue may write there
    probe.py          detects whether Kueue is done, or only has no CPU time
    simulate.py       one side on a control plane, from an empty etcd to its outcome
    trees.py          cohort trees that are equal in base and head
    both.py           base and head
    outcome.py        the decision about each Workload
    synthetic.py      a snapshot for users who have no cluster yet
    report.py         base and head compared, as a report
    kai/              the same for a stack that KAI schedules

The user's cluster is never written to, and only the snapshot is read from it.
"""
