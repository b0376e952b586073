"""Leased messages out of the store: the long poll, its answer, and the receipts in it."""
