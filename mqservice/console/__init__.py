"""The pages people look at; templates and styles live in ``frontend``."""
