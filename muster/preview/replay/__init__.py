"""Replays a recording in the queues of base and head: the scheduler's own code decides, in logical time.

submitted.py a job that is not submitted yet, and what it could ask for instead
kai_side.py  a stack with KAI and a recording -> what its player gets
both.py      a stack with Kueue -> its queues; plays both sides, and compares them
"""
