"""Our manager, the real Kueue and a cloud under faults, and what has to hold all the same.

plane.py      API server, etcd, Kueue and the simulated cloud, all real programs
proxy.py      stands between the manager and the API server and breaks calls and watches
schedule.py   which call is broken how: drawn from a seed, printed, the same again for the same seed
managers.py   the manager as a process that is killed, stopped, started again
gangs.py      the work: bare Workloads, no Ray
history.py    every state that the store ever had, from etcd itself
oracle.py     what must hold in each of them, and at the end
"""
