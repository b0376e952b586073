"""Dead letters: per group, one of them, exports, redrive and purge."""
