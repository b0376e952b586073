"""Commands for the first message."""
