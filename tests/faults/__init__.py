"""Our manager, the real Kueue and a cloud under faults, and what has to hold all the same.

plane.py      API server, etcd, Kueue and the simulated cloud, all real programs
proxy.py      stands between the manager and the API server; breaks.py: what can happen there
schedule.py   which call is broken how: drawn from a seed, printed, the same again for the same seed
kills.py      a power cut at a chosen write
managers.py   the manager as a process that is killed, stopped, started again
gangs.py      the work: bare Workloads, no Ray
history.py    every state that the store ever had, from etcd itself
ledger.py     what that tells of each reservation of quota; reservation.py: what one look at it tells
oracle.py     what must hold in each of them; ending.py: and at the end
stage.py      all of that together, for one test
"""
