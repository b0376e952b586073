"""Checks a whole store with code that shares as little as possible with the engine's."""
