"""Reads that change nothing: pulls, browsing, search by time and key."""
