"""A message that takes another place: retries, dead letters, redrives."""
