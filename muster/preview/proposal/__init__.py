"""Proposes the smallest change of quotas and limits with which a recording meets goals.

goals.py     `p95(prod) < 15m`: what is wanted, and how far a replay is from it
knobs.py     which amounts of a stack file may change, and within which bounds
need.py      what late jobs lacked in a replay
moves.py     which changes are worth a try for them
search.py    which of them are replayed, and in which order
evaluate.py  a change of amounts -> stack file -> stack -> replay
limits.py    why no change reaches a goal
proposal.py  the answer: change, diff of the file, and replay
report.py    the answer as text and as JSON
"""
