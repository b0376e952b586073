"""Bugs put into service and engine on purpose, each with the test that must fail for it.

    theme modules ── Plant ──▶ catalogue ──▶ trying ── MQ_PLANT ──▶ pytest with ``plugin``
                                                          named tests fail as tests do ──▶ caught

Those of ``tests/storage_engine/planted`` are caught by harnesses of their own, in each run of all
tests. These cost a pytest process each, so ``make torture`` runs them; the tests beside this file
only see that each still fits the code.
"""
