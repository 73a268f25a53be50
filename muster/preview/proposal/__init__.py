"""Proposes the smallest change of quotas and limits with which a recording meets goals.

search.py    which amounts of a stack file may change within which bounds, and which of these changes are
             replayed, in which order
evaluate.py  `p95(prod) < 15m`: what is wanted, and a change of amounts -> stack file -> stack -> replay: how
             far it is from that, what late jobs lacked, and why no change reaches a goal
proposal.py  the answer: change, diff of the file, and replay, as text and as JSON
"""
