"""Turns the files that a stop left behind into a log with a clean end and matching queues."""
