"""Measurements over time: consumer offsets, lag, rates and the disk, stored in PostgreSQL."""
