"""What would happen to the work that runs and waits: the real Kueue decides, on a control plane that is
thrown away.

    stage.py      what of a stack is put there, and how Kueue is configured
    stored.py     a snapshot's Workload as the API server stores it
    etcd.py       puts objects straight into the store, with their real times
    player.py     does what jobs do: gives quota back when evicted, ends when its time is over
    counted.py    when Kueue knows what is taken
    rights.py     what Kueue may write there
    turn.py       whether Kueue is done, or has no processor
    simulate.py   one side, from an empty store to its outcome
    trees.py      what is the same in base and head
    sides.py      base and head
    outcome.py    what was decided about each Workload
    synthetic.py  a snapshot for those who have no cluster yet
    told.py       base beside head, as a report
    kai.py        what can be told of a stack whose scheduler cannot be run here

Nothing of the user's cluster is written, and nothing of it is read but the snapshot.
"""
