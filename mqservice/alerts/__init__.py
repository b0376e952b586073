"""Alert rules of namespaces: what they watch, when they fire, and who is notified."""
