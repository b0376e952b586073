"""Nightly analytics over what the engine wrote: store files in, reports out; reads only.

    store files ──▶ source ──▶ jobs ──▶ lake and reports

It can neither slow nor harm the engine, and knows nothing of Django.
"""
