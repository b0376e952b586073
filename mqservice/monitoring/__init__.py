"""Health, heartbeats and samples of what the engine reports."""
