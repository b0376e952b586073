"""Reports that Spark makes each night: when, how far they have come, and what they found."""
