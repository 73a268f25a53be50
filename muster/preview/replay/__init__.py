"""Replays a recording in the queues of base and head: the scheduler's own code decides, in logical time.

submitted.py      a job that is not submitted yet, and what it could ask for instead
both.py           a stack and a recording -> what its player gets; plays both sides, and compares them
forecast_text.py  a forecast in words and as JSON
"""
