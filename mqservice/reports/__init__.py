"""Reports that Spark writes every night: when, their progress, and their results."""
