"""Jobs: each module has a NAME and a pure ``transform(frames, scope)``; rows have a ``date``.

frames ──▶ [transform] ──▶ the report's rows, for the days of the scope
"""
