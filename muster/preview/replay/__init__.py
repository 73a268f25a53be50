"""Replays a recording in the queues of base and head: Kueue's own scheduler decides, in logical time.

side.py     a stack and a recording -> what the player gets
both.py     plays both sides, and compares them
"""
