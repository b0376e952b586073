"""Shards: the engines of an installation, where they answer, and which namespaces they have."""
