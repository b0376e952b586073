"""Scheduled messages, and schedules that send messages at planned times."""
