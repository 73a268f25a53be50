"""Compares Kueue's own provisioning check with Muster's on the same control plane and the same gangs.

variants.py defines what is compared, trial.py what happens in a trial. Every figure is computed from the API
server's audit log (audit.py, timeline.py) and from the kernel's counters of each process (usage.py), never
from the time at which the bench polled.
"""
