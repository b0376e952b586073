"""Nightly reports: the list, a day, requested runs."""
