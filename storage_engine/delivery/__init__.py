"""Who has which message: leases, what is settled, consumer offsets and their journal."""
