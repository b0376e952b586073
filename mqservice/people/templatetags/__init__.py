"""Tags of the pages of people."""
