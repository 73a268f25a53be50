"""Proposes the smallest change of quotas and limits with which a recording meets goals.

goals.py     `p95(prod) < 15m`: what is wanted, how far a replay is from it, what late jobs lacked, and why no
             change reaches a goal
knobs.py     which amounts of a stack file may change within which bounds, and which are worth a try
search.py    which of them are replayed, and in which order
evaluate.py  a change of amounts -> stack file -> stack -> replay
proposal.py  the answer: change, diff of the file, and replay, as text and as JSON
"""
