"""Release runs of the engine's fault tests, at sizes a test run has no time for.

    __main__ ─▶ plan ─▶ steps ─▶ jobs in processes (work) ─▶ evidence/storage_engine.json
                                    │                                  │
         harnesses of tests/storage_engine                promises ─▶ page ─▶ docs/reliability.md

Nothing is tested here that the harnesses do not test; the sizes and seeds are others. A step that
this machine does not allow says so in the evidence, and any anomaly makes the run fail.
"""
