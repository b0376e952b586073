"""Alert rules of namespaces: what is watched, when it fires, and who is told."""
