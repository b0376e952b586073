"""Consume queues: where the records of each queue are in the log; derived from it."""
