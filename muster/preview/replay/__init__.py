"""Replays a recording in the queues of base and head: the scheduler's own code decides, in logical time.

both.py           a stack and a recording -> what its player gets; plays both sides, and compares them
forecast_text.py  what a job that is not submitted yet could ask for instead; a forecast in words and as JSON
"""
