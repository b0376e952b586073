"""How bytes come in: one HTTP protocol and one socket protocol, with their limits."""
