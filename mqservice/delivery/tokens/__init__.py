"""Signed text that clients are given and give back: receipts, cursors, handles, resume tokens."""
