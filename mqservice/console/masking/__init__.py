"""Which fields and bodies are hidden from whom."""
