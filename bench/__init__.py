"""Measurements of the engine and of the whole service: ``python -m bench``.

    __main__ ─▶ workloads (disk, engine, rest, push, scale) ─▶ rows ─▶ table, bench/results/*.json
                     └─ processes: engine, bare handler, whole service, each on its own directory

Every figure is the median of several runs and comes with the CPU each process used meanwhile. What
the service must reach is also given as a ratio to something simple measured in the same run: two
machines, or the same one an hour later, do not compare. See docs/benchmarks.md.
"""
