"""Stores of RocketMQ: imported into a new installation, and exported from one.

importing  ─▶ a fresh data directory that holds what a RocketMQ store holds
exporting  ─▶ a directory that a RocketMQ broker opens
Both leave the work on files to a program of the engine: ``storage_engine.tools.transfer``.
"""
