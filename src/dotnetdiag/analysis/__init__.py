"""Questions over a loaded trace: pure functions with frozen results, one file per question.

May import errors, events, trace and numpy. Never does I/O, never formats for people, never knows a foreign format.
"""
