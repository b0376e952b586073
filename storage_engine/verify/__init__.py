"""The check of a whole store by code that shares as little as possible with the engine's."""
