"""Consume queues: for each queue of a topic where its records stand in the log; derived from it."""
