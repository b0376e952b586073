"""Schema history of the app."""
