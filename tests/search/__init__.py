"""Orders of events of a small world, driven through the real `decide`: `python -m tests.search`.

space.py walks the states, scenes.py says what can happen in one and what must hold, planted.py breaks the
decision code on purpose and counts what the search notices.
"""
