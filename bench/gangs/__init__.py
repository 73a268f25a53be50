"""Kueue's own provisioning check and Muster's side by side: same plane, same gangs, one run.

What is compared is told by contenders.py, what happens in a trial by trial.py; every figure is computed from
the API server's audit log (audit.py, timeline.py) and from the kernel's counters of each process (usage.py),
never from when somebody looked.
"""
