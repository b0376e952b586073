"""The alert rules of a namespace: what they watch, when they fire, and whom they notify."""
