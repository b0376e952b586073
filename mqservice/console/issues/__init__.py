"""Failures by cause."""
