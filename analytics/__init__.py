"""Nightly analytics over what the engine wrote: store files in, reports out; reads only.

    store files ──▶ source ──▶ ingest ──▶ lake (Parquet, by date and tenant)
    lake, samples from PostgreSQL ──▶ jobs (pure) ──▶ reports (Parquet, by date)

It can neither slow nor harm the engine, and knows nothing of Django. ``python -m analytics run``
does all of it for a range of dates. Spark and Java are needed for it, and for nothing else.
"""
