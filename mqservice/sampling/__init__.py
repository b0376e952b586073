"""What was measured over time: consumer offsets, lag, rates and the disk, kept in PostgreSQL."""
