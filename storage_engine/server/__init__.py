"""The process around the store: its socket, its calls, its metrics."""
