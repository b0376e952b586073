"""Reads a shard out of its bucket into a directory, without its engine.

``python -m storage_engine.tools.shard_copy`` ── one line of JSON (``report``) ──▶ who asked
"""
