"""Replays a recording in the queues of base and head: the scheduler's own code decides, in logical time.

submitted.py a stack with Kueue -> its queues, in which muster/replay/side.py places the jobs
kai_side.py  a stack with KAI and a recording -> what its player gets
both.py      plays both sides, and compares them
"""
